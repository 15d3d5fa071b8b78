// SPDX-License-Identifier: Apache-2.0
//
// Drives a real client through scenarios and prints what came of each as one JSON object. The argument is JSON: library, mode, target, scenarios.
import { Connection, failure, library, sleep, until } from "./library.mjs";

const given = JSON.parse(process.argv[2]);
const lib = library(given.library, given.mode);
const structured = (result) => result.structuredContent;

// The client itself holds every structured content against the tool's outputSchema, because the list of tools was asked for before.
async function everything(c) {
    const { tools } = await c.client.listTools();
    const calls = [
        ["write_file", { path: "data/in.csv", content: "a,b\n1,2\n3,4\n" }],
        ["run_python", { code: "import csv\nrows = list(csv.reader(open('data/in.csv')))\nprint('rows', len(rows))\nlen(rows)" }],
        ["run_shell", { command: "wc -l < data/in.csv; echo oops >&2" }],
        ["run_code", { language: "bash", code: "read x; echo \"$x $1\"", stdin: "hello\n", args: ["world"] }],
        ["list_files", { path: "data" }],
        ["read_file", { path: "data/in.csv" }],
        ["session_info", {}],
        ["reset_session", { files: "delete" }],
    ];
    const results = {};
    for (const [name, args] of calls) results[name] = await c.call(name, args);
    const after = await c.call("list_files");
    return {
        version: c.client.getServerVersion(), capabilities: c.client.getServerCapabilities(), instructions: c.client.getInstructions(),
        negotiated: c.client.getNegotiatedProtocolVersion?.() ?? c.wire.protocolVersion ?? null, era: c.client.getProtocolEra?.() ?? "legacy", tools, results, after,
    };
}

async function failures(c) {
    await c.client.listTools();
    const one = await c.call("run_python", { code: "{}['absent']" });
    return {
        raises: one,
        tool: await failure(c.call("rm_rf")),
        wrong: await failure(c.call("run_python", { code: 5 })),
        missing: await failure(c.call("run_python", {})),
        extra: await failure(c.call("run_python", { code: "1", colour: "red" })),
        resource: await failure(c.client.readResource({ uri: "glovebox://runs/00000000000000000000000000000000/stdout" })),
        session: await c.call("run_python", { code: "1", session: "0".repeat(32) }),
        // The newer one does not let anybody ask for what is not in the protocol.
        method: given.library === "sdk" ? await failure(c.lib.ask(c.client, { method: "tools/shut" })) : null,
        file: await c.call("read_file", { path: "absent.txt" }),
        works: structured(await c.python("6 * 7")).value,
    };
}

// Code that waits for a file, which is written when the client was told something: so it was told while the code ran.
const WAITS = "import os, time\ndef wait(name):\n    while not os.path.exists(name):\n        time.sleep(0.01)\n";

async function progress(c) {
    const told = [];
    await c.python(WAITS);
    const code = "print('one', flush=True)\nwait('go1')\nprint('two', flush=True)\nwait('go2')\n'done'";
    const running = c.python(code, { onprogress: (p) => told.push(p) });
    for (const [word, path] of [["one", "go1"], ["two", "go2"]]) {
        await until(() => told.some((p) => p.message?.includes(word)));
        await c.call("write_file", { path, content: "" });
    }
    return { told, result: await running };
}

// The client says that it does not want the answer any more; the code that ran is stopped, as by Ctrl-C, and its variables are still there.
async function cancel(c) {
    await c.python("kept = 'still here'");
    const stop = new AbortController();
    const code = "import time\ntry:\n    print('begun', flush=True)\n    while True:\n        time.sleep(0.02)\nfinally:\n    open('ended', 'w').write('yes')";
    const left = await failure(c.python(code, { signal: stop.signal, onprogress: () => stop.abort("enough") }));
    const result = await c.python("import os\n(kept, os.path.exists('ended'))");
    // What a client does behind our back about a stream that has ended without an answer it does within these seconds.
    if (c.target.transport === "http") await sleep(2.5);
    return { left, value: structured(result).value };
}

async function logging(c) {
    const told = [];
    c.on("notifications/message", (m) => told.push(m));
    const level = async (name) => c.client.setLoggingLevel(name);
    const modern = c.client.getProtocolEra?.() === "modern";
    const run = async (name, code) => {
        if (!modern) await level(name);
        const meta = modern ? { _meta: { "io.modelcontextprotocol/logLevel": name } } : {};
        const session = c.session ? { session: c.session } : {};
        await c.lib.call(c.client, { name: "run_python", arguments: { code, timeout: 0.3, ...session }, ...meta });
        return told.splice(0);
    };
    return { info: await run("info", "1"), warning: await run("warning", "1"), bad: await run("warning", "while True: pass") };
}

async function resources(c) {
    const made = await c.python("open('notes.txt', 'w').write('hello')\nopen('raw.bin', 'wb').write(bytes(range(256)))\nprint('printed')");
    const { run, files } = structured(made);
    const uri = files.find((f) => f.path === "notes.txt").uri;
    const listed = await c.client.listResources();
    return {
        links: made.content.filter((item) => item.type === "resource_link"), listed, templates: await c.client.listResourceTemplates(),
        text: await c.client.readResource({ uri }),
        blob: await c.client.readResource({ uri: files.find((f) => f.path === "raw.bin").uri }),
        stdout: await c.client.readResource({ uri: `glovebox://runs/${run}/stdout` }),
    };
}

// Of two files that are watched one is let go of: then news of the other come, and none of it.
async function subscribe(c) {
    const updated = [], lists = [];
    c.on("notifications/resources/updated", (p) => updated.push(p.uri));
    c.on("notifications/resources/list_changed", () => lists.push(1));
    const modern = c.client.getProtocolEra?.() === "modern";
    const { uri } = structured(await c.call("write_file", { path: "watched.txt", content: "1" }));
    const { uri: other } = structured(await c.call("write_file", { path: "other.txt", content: "1" }));
    const open = (...uris) => (modern ? c.client.listen({ resourceSubscriptions: uris, resourcesListChanged: true }) : Promise.all(uris.map((uri) => c.client.subscribeResource({ uri }))));
    const first = await open(uri, other);
    await c.python("open('watched.txt', 'w').write('changed, and longer')");
    await until(() => updated.includes(uri));
    const otherTold = updated.includes(other);
    // A stateless client that is nobody's has no list of its own.
    if (!c.target.handles) {
        await c.call("write_file", { path: "new.txt", content: "" });
        await until(() => lists.length > 0);
    }
    if (modern) await first.close();
    else await c.client.unsubscribeResource({ uri });
    const second = modern ? await open(other) : null;
    updated.length = 0;
    await c.python("open('watched.txt', 'w').write('and once more, when nobody wants to hear of it')\nopen('other.txt', 'w').write('changed, too')");
    await until(() => updated.includes(other));
    await second?.close();
    return { uri, other, otherTold, honored: modern ? first.honoredFilter : null, closed: modern ? await first.closed : null, later: updated };
}

// All at once: each answer finds its question, and those that want the same interpreter take turns.
async function together(c) {
    await c.call("write_file", { path: "log", content: "" });
    const numbers = Array.from({ length: 8 }, (_, i) => i);
    const values = await Promise.all(numbers.map(async (i) => structured(await c.python(`open('log', 'a').write('${i}\\n')\n${i} * 100`)).value));
    const lines = structured(await c.call("read_file", { path: "log" })).text.trim().split("\n").sort();
    return { values, lines };
}

// The connection is cut while code runs, by the proxy; what the client does then is its own business.
async function dropped(c) {
    const told = [], tokens = [];
    await c.python(WAITS);
    const code = "open('runs', 'a').write('x')\nfor word in ('first', 'CUT-HERE', 'third'):\n    print(word, flush=True)\n    time.sleep(0.3)\nwait('go')\n'the end'";
    const running = c.python(code, { onprogress: (p) => told.push(p), onresumptiontoken: (t) => tokens.push(t) });
    await until(() => told.some((p) => p.message?.includes("third")));
    await c.call("write_file", { path: "go", content: "" });
    return { told, tokens, result: await running, runs: structured(await c.python("open('runs').read()")).value };
}

// The client goes away, as a program that was restarted, and another one asks for the answer with what the first had written down.
async function returning(c) {
    const tokens = [], told = [];
    await c.python(WAITS);
    const params = { name: "run_python", arguments: { code: "open('runs', 'a').write('x')\nprint('begun', flush=True)\nwait('go')\n'the end'" } };
    const first = failure(c.lib.call(c.client, params, { onprogress: (p) => told.push(p), onresumptiontoken: (t) => tokens.push(t) }));
    await until(() => told.length > 0);
    const sessionId = c.wire.sessionId, resumptionToken = tokens.at(-1);
    await c.client.close();
    const lost = await first;

    await c.open({ sessionId, protocolVersion: "2025-11-25" });
    c.wire.setProtocolVersion("2025-11-25");
    await c.call("write_file", { path: "go", content: "" });
    const result = await c.lib.ask(c.client, { method: "tools/call", params }, { resumptionToken });
    return { lost, result, runs: structured(await c.python("open('runs').read()")).value };
}

// After the end of its session the id is nobody's.
async function ending(c) {
    await c.python("x = 1");
    const { sessionId } = c.wire;
    await c.wire.terminateSession();
    const forgotten = c.wire.sessionId ?? null;
    await c.client.close();
    await c.open({ sessionId });
    return { sessionId, forgotten, after: await failure(c.python("x")) };
}

// Two sessions of one client, by their handles.
async function handles(c) {
    const one = structured(await c.call("run_python", { code: "x = 'one'", session: "new" })).session;
    const two = structured(await c.call("run_python", { code: "x = 'two'", session: "new" })).session;
    const values = [];
    for (const session of [one, two, one]) values.push(structured(await c.call("run_python", { code: "x", session })).value);
    return { one, two, values };
}

const scenarios = { everything, failures, progress, cancel, logging, resources, subscribe, together, dropped, returning, ending, handles };

// Each has a connection of its own. What one throws is its result, and the others go on.
async function play(name) {
    const connection = new Connection(lib, given.target);
    try {
        await connection.open();
        const answer = await scenarios[name](connection);
        const complaints = [...connection.complaints]; // without those of its own leaving, which aborts its streams
        const pid = name === "ending" ? null : await connection.close();
        return { ...answer, complaints, pid: pid ?? null };
    } catch (error) {
        return { thrown: error?.stack ?? String(error), complaints: connection.complaints };
    }
}

// A few at a time: mostly they wait.
const waiting = [...given.scenarios], results = {};
await Promise.all(Array.from({ length: 3 }, async () => {
    for (let name; (name = waiting.shift()); ) results[name] = await play(name);
}));
process.stdout.write(JSON.stringify(results));
// Nothing of theirs may keep the process: a timer that is left would be one that asks again and again.
setTimeout(() => process.exit(3), 5000).unref();
