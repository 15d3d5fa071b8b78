// SPDX-License-Identifier: Apache-2.0
//
// A context of Node.js: one process that takes code over descriptor 20, run after run
// (docs/design/control-channel.md). It is started as `node /run/glovebox/node_runner.js`.
//
// Theory of operation. Code goes to V8's own REPL mode (Runtime.evaluate of an inspector session inside of
// this process; nothing listens). That mode gives what a notebook needs without any rewriting: a `const`,
// `let` or `class` may be declared again in a later run, `await` works at the top, and the value of the last
// expression comes back. A run is over when the code and what it awaits are done, not when all timers are:
// these go on in the next run. Between runs the process waits in a blocking read, and no callback runs.
//
// What V8 does not do there is `import`. It is turned into a call by a small scanner, only in code that has
// the word.
//
// SIGINT ends synchronous code by vm's watch (breakOnSigint), which covers everything below its call; while
// code awaits, it ends the waiting. A loop that spins in a callback cannot be ended that way: the host then
// ends the process. When vm sets up its watch and takes it down, Node has the default action for about 0.1 ms; a
// signal that falls into that ends the process, too.
//
// `process.exit` is real, and so is the end of the context by it. Descriptor 0 is the run's standard input, and
// process.stdin a new stream in each run.
'use strict';

const fs = require('fs');
const inspector = require('inspector');
const Module = require('module');
const path = require('path');
const { pathToFileURL } = require('url');
const util = require('util');
const vm = require('vm');

const CHANNEL = 20;
const FRAME_BYTES_MAX = 16 * 1024 * 1024 - 4096; // a little below the host's, for the names of parts
const TEXT_MAX = 64 * 1024; // characters of a message
const TRACE_MAX = 256 * 1024; // characters of a stack

const limits = { count: 64, bytes: 10 * 1024 * 1024 }; // until C says others
let isLast = false; // the run that began last is the last one: the process ends as a program after it
let run = null; // the one that is under way: its number, results so far, bytes left for them, and what ends it

// ---- the channel -------------------------------------------------------------------------------

function readExactly(size) {
  const data = Buffer.allocUnsafe(size);
  for (let n = 0; n < size;) {
    const got = fs.readSync(CHANNEL, data, n, size - n, null);
    if (got === 0) process.exit(0);
    n += got;
  }
  return data;
}

// A byte at a time: what follows the line must stay in the socket until its size is known.
function readHeader() {
  const byte = Buffer.allocUnsafe(1);
  let line = '';
  while (line.length < 32) {
    if (fs.readSync(CHANNEL, byte, 0, 1, null) === 0) process.exit(0);
    if (byte[0] === 10) break;
    line += String.fromCharCode(byte[0]);
  }
  const match = /^([A-Z]) (\d{1,10}) (\d{1,10})$/.exec(line);
  if (!match) process.exit(1);
  return { kind: match[1], seq: match[2], size: Number(match[3]) };
}

function pack(parts) {
  const pieces = [];
  for (const [name, value] of parts) {
    const bytes = typeof value === 'string' ? Buffer.from(value) : value;
    pieces.push(Buffer.from(`${name} ${bytes.length}\n`), bytes);
  }
  return Buffer.concat(pieces);
}

function unpack(payload) {
  const parts = [];
  for (let at = 0; at < payload.length;) {
    const end = payload.indexOf(10, at);
    const [name, size] = payload.toString('latin1', at, end).split(' ');
    parts.push([name, payload.subarray(end + 1, end + 1 + Number(size))]);
    at = end + 1 + Number(size);
  }
  return parts;
}

function send(kind, seq, payload) {
  const data = Buffer.concat([Buffer.from(`${kind} ${seq} ${payload.length}\n`), payload]);
  for (let n = 0; n < data.length;) n += fs.writeSync(CHANNEL, data, n);
}

// ---- results -----------------------------------------------------------------------------------

function complain(text) {
  fs.writeSync(2, `glovebox: ${text}\n`);
}

// Within what is left of the run's limits: a note in the place of what is too large, or not at all.
function sendResult(kind, name, value) {
  if (++run.count > limits.count) {
    if (run.count === limits.count + 1) complain(`more than ${limits.count} results in one run: this one and those after it are left out`);
    return;
  }
  let payload = pack([[name, value]]);
  const size = payload.length;
  if (size > Math.min(run.left, FRAME_BYTES_MAX))
    payload = pack([['text/plain', `[left out: ${name} of ${size} bytes; the results of a run may have ${limits.bytes} bytes together]`]]);
  if (payload.length > run.left) {
    complain(`a result of ${size} bytes is left out: the results of a run may have ${limits.bytes} bytes together`);
    return;
  }
  run.left -= payload.length;
  send(kind, run.seq, payload);
}

// Objects of the user may throw when they are looked at.
function inspect(value) {
  try {
    return util.inspect(value);
  } catch (error) {
    return `(a value that cannot be shown: ${typeof error})`;
  }
}

function display(value, mime) {
  if (mime !== undefined && !/^[A-Za-z0-9._+/;=-]{1,127}$/.test(mime))
    throw new TypeError('display: the second argument must be a MIME type such as "text/html"');
  if (!run) return;
  if (value instanceof Uint8Array) sendResult('P', mime || 'application/octet-stream', Buffer.from(value));
  else if (typeof value === 'string') sendResult('P', mime || 'text/plain', value);
  else if (mime && /[/+]json$/.test(mime)) sendResult('P', mime, String(JSON.stringify(value)));
  else sendResult('P', mime || 'text/plain', mime ? String(value) : inspect(value));
}

// Below the code's own frames are the inspector's and ours; they go, but not a brace at the end of a line, which
// belongs to the object. An error with a cause shows its frames in two pieces.
const END = '[^\\n]*?(?= \\{\\n|\\n|$)';
const OURS = [
  new RegExp(`\\n\\s+at (?:\\w+\\.)?post \\(node:inspector${END}(?:\\n\\s+at ${END})*`, 'g'),
  new RegExp(`\\n\\s+at [^\\n]*${path.basename(__filename)}:${END}`, 'g'),
  /\n\s+\.\.\. \d+ lines matching cause stack trace \.\.\./g,
];

function cutFrames(text) {
  return OURS.reduce((left, pattern) => left.replace(pattern, ''), text);
}

// A SyntaxError knows no place by itself; V8 tells it beside.
function placeOfError(details, code) {
  const line = code.split('\n')[details.lineNumber];
  if (line === undefined || line.length > 200) return '';
  return `run-${run.seq}:${details.lineNumber + 1}\n${line}\n${' '.repeat(details.columnNumber)}^\n\n`;
}

function describeError(error, place) {
  try {
    if (util.types.isNativeError(error) || error instanceof Error)
      return { name: String(error.name), value: String(error.message), traceback: place + cutFrames(util.inspect(error)) };
  } catch {
    // It is shown like any other value.
  }
  return { name: 'Uncaught', value: inspect(error), traceback: '' };
}

function sendError({ name, value, traceback }) {
  send('X', run.seq, pack([['name', name.slice(0, 256)], ['value', value.slice(0, TEXT_MAX)], ['traceback', traceback.slice(0, TRACE_MAX)]]));
}

// ---- import ------------------------------------------------------------------------------------

// Strings, templates, comments and words; the rest one character at a time. A regular expression is told from a
// division by what stands before it.
const TOKEN = /\/\/[^\n]*|\/\*[^]*?\*\/|'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"|[\w$\u0080-\uffff]+|\s+|[^]/y;
const REGEXP = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y;
const BEFORE_REGEXP = /^(?:[=(,:[!&|?{};+\-*%<>~^]|return|typeof|case|in|of|do|else|void|delete|throw|new|await|yield)$/;
const STATIC = /import\s*(?:([\w$]+)\s*(?:,\s*)?)?(?:\*\s*as\s+([\w$]+)\s*|\{([^}]*)\}\s*)?(?:from\s*)?('[^'\n]*'|"[^"\n]*")/y;

// The end of a template that begins at `at`; the code in ${} is given to inside().
function skipTemplate(code, at, inside) {
  for (at++; at < code.length && code[at] !== '`'; at++) {
    if (code[at] === '\\') at++;
    else if (code[at] === '$' && code[at + 1] === '{') at = scan(code, at + 2, true, inside);
  }
  return at + 1;
}

// Walks over code and calls found(position) at each word `import`; stops behind the code, or before the brace that
// closes a ${}.
function scan(code, at, inTemplate, found) {
  let before = ';';
  for (let depth = 0; at < code.length;) {
    if (code[at] === '`') {
      at = skipTemplate(code, at, found);
      before = '`';
      continue;
    }
    REGEXP.lastIndex = TOKEN.lastIndex = at;
    const pattern = code[at] === '/' && BEFORE_REGEXP.test(before) && !/[/*]/.test(code[at + 1]) && REGEXP.exec(code);
    const token = pattern ? pattern[0] : TOKEN.exec(code)[0];
    if (inTemplate && token === '}' && depth-- === 0) return at;
    if (token === '{') depth++;
    if (token === 'import' && before !== '.') found(at);
    if (!/^(?:\s|\/\/|\/\*)/.test(token)) before = pattern ? 'x' : token;
    at += token.length;
  }
  return at;
}

function rewriteStatic(match) {
  const [, first, all, some, from] = match;
  const names = [];
  if (first) names.push(`default: ${first}`);
  if (some) names.push(some.replace(/\s+as\s+/g, ': '));
  const load = `await globalThis[Symbol.for('glovebox.import')](${from})`;
  if (all) return first ? `const ${all} = ${load}, ${first} = ${all}.default` : `const ${all} = ${load}`;
  return names.length ? `const {${names.join(', ')}} = ${load}` : load;
}

function rewriteImports(code) {
  if (!code.includes('import')) return code;
  let out = '';
  let done = 0;
  scan(code, 0, false, (at) => {
    if (/^\s*\(/.test(code.slice(at + 6, at + 200))) {
      out += code.slice(done, at) + "globalThis[Symbol.for('glovebox.import')]";
      done = at + 6;
      return;
    }
    STATIC.lastIndex = at;
    const match = STATIC.exec(code);
    if (!match) return;
    out += code.slice(done, at) + rewriteStatic(match);
    done = at + match[0].length;
  });
  return out + code.slice(done);
}

// Relative to the directory the process is in, as require is.
function importModule(specifier, options) {
  const name = String(specifier);
  if (/^\.{0,2}\//.test(name)) return import(pathToFileURL(path.resolve(name)).href, options);
  if (Module.isBuiltin ? Module.isBuiltin(name) : Module.builtinModules.includes(name)) return import(name, options);
  if (/^[a-z]+:/.test(name)) return import(name, options);
  try {
    return import(pathToFileURL(globalThis.require.resolve(name)).href, options);
  } catch (error) {
    return Promise.reject(error);
  }
}

// ---- evaluation --------------------------------------------------------------------------------

const session = new inspector.Session();
session.connect();
const under = new vm.Script(`globalThis[Symbol.for('glovebox.step')]()`, { filename: 'node:glovebox' });

// The real value behind the inspector's description of it.
function fetchValue(remote) {
  let value;
  globalThis[Symbol.for('glovebox.take')] = (v) => { value = v; };
  const take = "function(v) { globalThis[Symbol.for('glovebox.take')](v); }";
  session.post('Runtime.callFunctionOn', { functionDeclaration: take, arguments: [remote], executionContextId: 1 }, () => {});
  delete globalThis[Symbol.for('glovebox.take')];
  return value;
}

// What V8 answered becomes an outcome: { value } or { error }.
function conclude(failed, answer, code) {
  if (failed) return { error: { name: 'InternalError', value: String(failed.message), traceback: '' } };
  const { exceptionDetails: details, result } = answer;
  if (!details) return { value: fetchValue(result) };
  const error = fetchValue(details.exception);
  const hasNoPlace = !details.stackTrace && error instanceof SyntaxError;
  return { error: describeError(error, hasNoPlace ? placeOfError(details, code) : '') };
}

const pause = new Int32Array(new SharedArrayBuffer(4));

// What vm's watch throws where it has ended the code.
function isInterrupt(error) {
  return util.types.isNativeError(error) && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
}

// Starts the code; done(outcome) is called when it and what it awaits are over. Throws when it is interrupted before
// it comes to wait for something, and when it cannot be started.
function evaluate(code, done) {
  const expression = `${rewriteImports(code)}\n//# sourceURL=run-${run.seq}`;
  let begun = false;
  globalThis[Symbol.for('glovebox.step')] = () => {
    // A signal that came just when the run before ended can still be on its way in vm's watch. It must not hit the code.
    Atomics.wait(pause, 0, 0, 0.2);
    begun = true;
    delete globalThis[Symbol.for('glovebox.step')];
    session.post('Runtime.evaluate', { expression, replMode: true, awaitPromise: true, objectGroup: 'run' }, (failed, answer) =>
      done(conclude(failed, answer, code)));
  };
  while (!begun) {
    try {
      under.runInThisContext({ breakOnSigint: true, displayErrors: false });
    } catch (error) {
      if (begun || !isInterrupt(error)) throw error;
    }
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

function drain(stream) {
  return new Promise((resolve) => (stream.writableLength > 0 && !stream.destroyed ? stream.write('', resolve) : resolve()));
}

const INTERRUPTED = { error: { name: 'Interrupted', value: 'the run was interrupted', traceback: '' }, interrupted: true };

// An interrupt can hit the code in the middle of a write. Node's stream then waits for the end of a write that nobody
// makes any more, and keeps all later output to itself. What Node has given to the kernel's queue does end by itself.
function repair(stream) {
  const state = stream && stream._writableState;
  if (state && state.writing && !(stream._handle && stream._handle.writeQueueSize > 0)) state.onwrite();
}

// The run is over, and its output written.
function finish({ seq, outcome }) {
  if (outcome.error) sendError(outcome.error);
  else if (outcome.value !== undefined) sendResult('R', 'text/plain', inspect(outcome.value));
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'run' }, () => {});
  session.post('Runtime.discardConsoleEntries', () => {});
  run = null;
  if (isLast) return leave(outcome);
  const status = outcome.interrupted ? 'interrupted' : outcome.error ? 'error' : 'ok';
  send('D', seq, pack([['status', status]]));
}

async function execute(seq, code) {
  let wake;
  const ended = new Promise((resolve) => { wake = resolve; });
  const own = { seq, count: 0, left: limits.bytes, outcome: null };
  own.end = (outcome) => {
    // What was rejected and not awaited shows itself only after a turn.
    if (!own.outcome || !own.outcome.error) own.outcome = outcome;
    wake();
  };
  run = own;
  listen();
  try {
    evaluate(code, own.end);
  } catch (error) {
    // In a turn of its own: an interrupt takes the promises that are settled just then with it. An error that the code
    // has thrown meanwhile comes of the interrupt, which hits the programs that it waits for as well.
    const outcome = isInterrupt(error) ? INTERRUPTED : { error: describeError(error, '') };
    setImmediate(() => {
      own.outcome = null;
      own.end(outcome);
    });
  }
  await ended;
  await turn();
  if (own.outcome.interrupted) [process.stdout, process.stderr].forEach(repair);
  await drain(process.stdout);
  await drain(process.stderr);
  if (run !== own) return new Promise(() => {}); // onIdle() has finished it, and goes on from there
  return finish(own);
}

// ---- signals and late errors -------------------------------------------------------------------

function onInterrupt() {
  if (run) run.end(INTERRUPTED);
}

function onLateError(error) {
  if (run) run.end({ error: describeError(error, '') });
  else fs.writeSync(2, `Uncaught ${cutFrames(inspect(error))}\n`);
}

// After the last run: as a program goes on, and ends when nothing is left to do. The host keeps the channel until then.
function leave({ error, interrupted }) {
  for (const [event, listener] of listeners) process.removeListener(event, listener);
  if (interrupted) process.kill(process.pid, 'SIGINT');
  else if (error) process.exit(1);
}

// Nothing is left to do, and the code still waits: it would for ever. Or the run is over, and an interrupt has taken
// our own next step with it: then that is done here.
function onIdle() {
  if (run && run.outcome) {
    finish(run);
    if (!isLast) serve().catch(fail);
  } else if (run) run.end({ error: { name: 'UnsettledAwait', value: 'the code awaits a promise that nothing is left to settle', traceback: '' } });
}

const listeners = [
  ['SIGINT', onInterrupt],
  ['uncaughtException', onLateError],
  ['unhandledRejection', onLateError],
  ['beforeExit', onIdle],
];

// The user may have taken them away.
function listen() {
  for (const [event, listener] of listeners) if (!process.listeners(event).includes(listener)) process.on(event, listener);
}

// ---- standard input ----------------------------------------------------------------------------

let stdin = null;

// The lowest free descriptor is taken, which is then 0.
function openStdin(file) {
  fs.closeSync(0);
  fs.openSync(file, 'r');
  if (stdin) stdin.destroy();
  stdin = null;
}

function isWritableDirectory(name) {
  try {
    fs.accessSync(name, fs.constants.W_OK | fs.constants.X_OK);
    return fs.statSync(name).isDirectory();
  } catch {
    return false;
  }
}

// $TMPDIR as the box has set it, not as the code sets it later.
const temporary = isWritableDirectory(process.env.TMPDIR || '') ? process.env.TMPDIR : '/tmp';

// The file has no name any more when the code sees it.
function putStdin(data) {
  const file = path.join(temporary, `.glovebox-stdin.${process.pid}`);
  const fd = fs.openSync(file, 'w+');
  fs.unlinkSync(file);
  for (let n = 0; n < data.length;) n += fs.writeSync(fd, data, n);
  openStdin(`/proc/self/fd/${fd}`);
  fs.closeSync(fd);
}

function getStdin() {
  if (!stdin) {
    stdin = fs.createReadStream(null, { fd: 0, autoClose: false });
    stdin.fd = 0;
  }
  return stdin;
}

// ---- the start ---------------------------------------------------------------------------------

function configure(parts) {
  for (const [name, value] of parts) {
    const text = value.toString();
    if (name === 'result_count') limits.count = Number(text);
    if (name === 'result_limit') limits.bytes = Number(text);
    if (name === 'env') process.env[text.slice(0, text.indexOf('='))] = text.slice(text.indexOf('=') + 1);
  }
  send('Y', 0, pack([['version', process.versions.node]]));
}

// What code of a file would find: require and module of the workspace, and no trace of this file in argv.
function prepareGlobals() {
  const main = new Module('.');
  main.filename = path.join(process.cwd(), 'main.js');
  main.paths = Module._nodeModulePaths(process.cwd());
  const require = Module.createRequire(main.filename);
  require.main = main;
  const globals = {
    require,
    module: main,
    exports: main.exports,
    __filename: main.filename,
    __dirname: process.cwd(),
    display,
    [Symbol.for('glovebox.import')]: importModule,
  };
  for (const key of Reflect.ownKeys(globals))
    Object.defineProperty(globalThis, key, { value: globals[key], writable: true, configurable: true, enumerable: false });
  Object.defineProperty(process, 'stdin', { get: getStdin, configurable: true, enumerable: true });
  process.argv.splice(1);
}

// Node marks descriptors close-on-exec from 0 on and stops at a gap behind 15. For the channel to be among them, the
// host fills the gap with /dev/null.
function closeFillers() {
  for (let fd = 16; fd < CHANNEL; fd++) {
    try {
      if (fs.readlinkSync(`/proc/self/fd/${fd}`) === '/dev/null') fs.closeSync(fd);
    } catch {
      // It is not open.
    }
  }
}

// A run that cannot have its standard input is not started.
async function step(seq, code, input) {
  try {
    if (input) putStdin(input);
    else openStdin('/dev/null');
  } catch (error) {
    run = { seq };
    sendError(describeError(error, ''));
    run = null;
    if (isLast) process.exit(1);
    send('D', seq, pack([['status', 'error']]));
    return;
  }
  // An interrupt that came between runs is over now: the first turn may still have been in the midst of hearing of it.
  await turn();
  await turn();
  await execute(seq, code);
}

async function serve() {
  for (let input = null; ;) {
    const { kind, seq, size } = readHeader();
    const payload = readExactly(size);
    if (kind === 'C') configure(unpack(payload));
    else if (kind === 'I') input = payload;
    else if (kind === 'E' || kind === 'L') {
      isLast = kind === 'L';
      await step(seq, payload.toString(), input);
      if (isLast) return;
      input = null;
    } else if (kind !== 'K') process.exit(1);
  }
}

function fail(error) {
  fs.writeSync(2, `glovebox: the runner failed: ${inspect(error)}\n`);
  process.exit(1);
}

closeFillers();
prepareGlobals();
listen();
serve().catch(fail);
