// SPDX-License-Identifier: Apache-2.0
//
// The official clients behind one face: the package sdk (1.x) and the package client (2.x). Everything here is theirs but for the names.
import { createRequire } from "node:module";

const require = createRequire(process.env.GLOVEBOX_TEST_NODE + "/package.json");
const ABOUT = { name: "glovebox-tests", version: "1" };

function sdk() {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const types = require("@modelcontextprotocol/sdk/types.js");
    const schemas = {
        "notifications/message": types.LoggingMessageNotificationSchema,
        "notifications/resources/updated": types.ResourceUpdatedNotificationSchema,
        "notifications/resources/list_changed": types.ResourceListChangedNotificationSchema,
    };
    return {
        Stdio: StdioClientTransport,
        Http: StreamableHTTPClientTransport,
        make: () => new Client(ABOUT, { capabilities: {} }),
        call: (client, params, options) => client.callTool(params, undefined, options),
        ask: (client, request, options) => client.request(request, types.CallToolResultSchema, options),
        on: (client, method, handler) => client.setNotificationHandler(schemas[method], (n) => handler(n.params)),
    };
}

// mode: "legacy", "auto", "modern"
function client(mode) {
    const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
    const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
    const versionNegotiation = { mode: mode === "modern" ? { pin: "2026-07-28" } : mode };
    return {
        Stdio: StdioClientTransport,
        Http: StreamableHTTPClientTransport,
        make: () => new Client(ABOUT, { capabilities: {}, versionNegotiation }),
        call: (client, params, options) => client.callTool(params, options),
        ask: (client, request, options) => client.request(request, options),
        on: (client, method, handler) => client.setNotificationHandler(method, (n) => handler(n.params)),
    };
}

export function library(name, mode) {
    return name === "sdk" ? sdk() : client(mode);
}

// What goes wrong in a transport without failing a call is an error, too: a good server gives no reason for any.
export class Connection {
    constructor(lib, target) {
        this.lib = lib;
        this.target = target;
        this.complaints = [];
    }

    transport(more = {}) {
        const t = this.target;
        if (t.transport === "stdio") return new this.lib.Stdio({ command: t.command, args: t.args, env: t.env, stderr: "inherit" });
        return new this.lib.Http(new URL(t.url), { requestInit: { headers: { Authorization: `Bearer ${t.token}` } }, ...more });
    }

    async open(more) {
        this.client = this.lib.make();
        this.client.onerror = (error) => this.complaints.push(String(error));
        this.wire = this.transport(more);
        await this.client.connect(this.wire);
        return this;
    }

    // The whole result of a tool. Where the server knows nobody from one call to the next, the handle of the session is handed on.
    async call(name, args = {}, options) {
        const session = this.session && !("session" in args) ? { session: this.session } : {};
        const result = await this.lib.call(this.client, { name, arguments: { ...args, ...session } }, options);
        if (this.target.handles && result.structuredContent?.session) this.session = result.structuredContent.session;
        return result;
    }

    python(code, options) {
        return this.call("run_python", { code }, options);
    }

    on(method, handler) {
        this.lib.on(this.client, method, handler);
    }

    // As a client that leaves should: it says so, and goes.
    async close() {
        const pid = this.wire.pid;
        if (this.target.transport === "http" && this.wire.sessionId) await this.wire.terminateSession();
        await this.client.close();
        return pid;
    }
}

export async function failure(promise) {
    try {
        const result = await promise;
        return { result };
    } catch (error) {
        return { code: error.code, message: error.message, name: error.constructor.name };
    }
}

// Waits until it is true; polls, since what is waited for comes from elsewhere.
export async function until(condition, seconds = 30) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
        const value = await condition();
        if (value) return value;
        if (Date.now() > end) throw new Error(`waited in vain for ${condition}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

export const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
