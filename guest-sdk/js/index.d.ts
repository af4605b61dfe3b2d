/// <reference path="./globals.d.ts" />
/// <reference path="./node/fs.d.ts" />
/** Writing Tollgate tools in JavaScript and TypeScript. */

/** JSON Schema (2020-12) of values of type `T`. */
export interface Schema<T> {
  readonly __type?: T;
  readonly [keyword: string]: unknown;
}

/** The schema of an optional property. */
export interface Optional<T> extends Schema<T> {
  readonly __optional?: true;
}

/** The type that a schema describes: `type Args = Infer<typeof parameters>`. */
export type Infer<S> = S extends Schema<infer T> ? T : never;

export function string(description?: string, more?: object): Schema<string>;
/** Integers; those beyond 2^53 lose digits, as all numbers of JavaScript do. */
export function integer(description?: string, more?: object): Schema<number>;
export function number(description?: string, more?: object): Schema<number>;
export function boolean(description?: string, more?: object): Schema<boolean>;
export function array<T>(items: Schema<T>, description?: string, more?: object): Schema<T[]>;
/** One of these values. */
export function oneOf<const T extends readonly unknown[]>(values: T, description?: string): Schema<T[number]>;

/** An optional property. The default is part of the schema, and filled into the arguments. */
export function optional<T>(inner: Schema<T>, fallback: T): Optional<T>;
export function optional<T>(inner: Schema<T>): Optional<T | undefined>;

/** An object with these properties and no others. */
export function object<P extends Record<string, Schema<any>>>(
  properties: P,
  description?: string,
): Schema<{ [K in keyof P]: Infer<P[K]> }>;

/**
 * A `T` within bounds, by keywords of JSON Schema: `Bounded<string, { maxLength: 80 }>`,
 * `Bounded<string[], { minItems: 1 }>`. To the compiler it is a `T`.
 */
export type Bounded<T, Keywords> = T & { readonly __bounds?: Keywords };

/**
 * An integer; `Integer<0, 20>` is one from 0 to 20. Integers beyond 2^53 lose digits, as
 * all numbers of JavaScript do. To the compiler it is a `number`.
 */
export type Integer<Minimum extends number = number, Maximum extends number = number> = Bounded<
  number,
  { type: "integer"; minimum: Minimum; maximum: Maximum }
>;

/** The description of a component. */
export interface Component {
  /** `[a-z][a-z0-9-]{0,63}`; grants and state keys belong to it. */
  id: string;
  version?: string;
  /**
   * The state that its tools read and change. A name without a dot is a key of its
   * own; one with a dot is another component's, and needs a grant.
   */
  state?: Record<string, StateKey>;
  tools: readonly Tool<any>[];
}

export interface StateKey {
  /** The value before the first update; for own keys. */
  initial?: unknown;
  schema?: Schema<any>;
  /** How an update is applied to the value; `replace` by default. */
  reducer?: "replace" | "merge-patch" | "append" | "add" | "union" | "max";
  /** `run` (the default) ends with the run, `thread` lives as long as the thread. */
  scope?: "run" | "thread";
  /** Whether it outlives the host's process. */
  persistent?: boolean;
  read?: boolean;
  write?: boolean;
}

export interface Tool<Args> {
  /** The name that the model uses: `[a-zA-Z0-9_-]{1,64}`. */
  name: string;
  /** The id in the registry; derived from the name by default. */
  id?: string;
  /** The purpose, for the model; by default the first paragraph of the comment on `execute`. */
  description?: string;
  /** The schema of its arguments; by default the type of the first parameter of `execute`. */
  parameters?: Schema<Args>;
  category?: string;
  /** The time limit of one attempt in milliseconds. */
  timeoutMs?: number;
  maxRetries?: number;
  /** Whether running again is harmless. */
  idempotent?: boolean;
  /** Checks constraints that the schema cannot express; throw `invalidArguments`. */
  validate?(args: Args): void | Promise<void>;
  /** Returns the data of a success or an `Answer`, or promises it. */
  execute(args: Args, context: Context): unknown;
}

/** A tool that states its parameters, which determine the type of its arguments. */
export function tool<Args>(tool: Described<Args>): Described<Args>;
/** A tool whose parameters are derived from the type of its arguments. */
export function tool<const T extends Tool<any>>(tool: T & { parameters?: undefined }): T;

export interface Described<Args> extends Tool<Args> {
  description: string;
  parameters: Schema<Args>;
}

/** The interface that the host calls; a tool's module exports it as `tool`. */
export function component<const C extends Component>(component: C): Served<C>;

/** A component with the types that `tollgate build` reads. */
export interface Served<C> {
  readonly __component?: C;
}

/** The call in progress. */
export interface Context {
  readonly callId: string;
  readonly toolName: string;
  readonly run: {
    readonly runId: string;
    readonly threadId: string;
    readonly agentId: string;
    readonly parentRunId: string | null;
    readonly parentThreadId: string | null;
    readonly parentCallId: string | null;
  };
  readonly agent: { readonly id: string; readonly description: string | null; readonly delegates: string[] };
  /** The revision of the snapshot that `read` reads. */
  readonly revision: number;
  /** The remaining time of this attempt in milliseconds. */
  readonly deadlineMs: number;
  /** The number of this attempt, counted from 1. */
  readonly attempt: number;
  /** A person's answer to this tool's own question, if the call asked one. */
  readonly resume: Resumption | null;
  /**
   * Returns the value of a key when the call began, with this call's own updates. For those to
   * another component's key, `state` has to state its reducer if that is not `replace`.
   */
  read(name: string): any;
  /** Adds an update for the key's reducer; it commits with the answer, or not at all. */
  update(name: string, update: unknown): void;
  /** Adds a note that the model sees on its next turn; needs a grant. */
  addContext(note: string): void;
  /** Hands the thread over to another agent; needs a grant. */
  transferTo(agentId: string): void;
  /** Ends the enclosing loop agent; needs a grant. */
  escalate(): void;
  /** Reports the progress of the call from 0 to 1, if known. */
  progress(
    fraction: number | null,
    message?: string | null,
    status?: "pending" | "running" | "done" | "failed" | "cancelled",
  ): void;
  activity(kind: string, content: string): void;
  activityDelta(kind: string, patch: object[]): void;
  /** Sends a piece of output that may be shown before the call ends. */
  streamOutput(delta: string): void;
  /** Writes a log line for the operator; the model never sees it. */
  log(level: "trace" | "debug" | "info" | "warn" | "error", message: string): void;
  /** Returns whether the run is being cancelled, so that the tool can stop early. */
  isCancelled(): boolean;
}

export interface Resumption {
  readonly suspensionId: string;
  readonly action: string;
  readonly message: string;
  readonly decisionId: string;
  /** The person's answer; it fits the ticket's schema. */
  readonly value: any;
  readonly reason: string | null;
  readonly decidedAtMs: number;
}

/** The setting that an operator granted; `undefined` if there is none. */
export function setting(name: string): string | undefined;

/**
 * Attaches an image or a sound to the call's result: the type is `image/...` or `audio/...`. A
 * model sees an image if it can. Throws if it is refused.
 */
export function attach(mimeType: string, data: Uint8Array): void;

/**
 * Attaches a file to the call's result. The model reads its text if it is UTF-8 and its media
 * type is `text/...`, JSON, XML or not given. Throws if it is refused.
 */
export function attachFile(uri: string, data: Uint8Array, mimeType?: string): void;

/** Attaches a link that the client may fetch itself. Throws if it is refused. */
export function attachLink(uri: string, name: string, description?: string | null): void;

/**
 * Runs another agent within this call and waits until it ends or waits for a person. Each agent is
 * granted by name. A child that does not complete is an outcome; a child that cannot be started
 * is an error.
 */
export function runChild(request: ChildRun): ChildOutcome;

export interface ChildRun {
  /** The id of the agent. */
  agent: string;
  /** The messages that start its thread; a string is one of the user. */
  messages?: string | { role: "user" | "assistant"; text: string }[];
  /** Full names of keys with their initial values. */
  seed?: Record<string, unknown>;
  /** Full names of the keys to return. */
  exports?: string[];
  /** How much of its text this call's clients see; nothing by default. */
  streaming?: "silent" | "passthrough" | "passthrough-raw-errors";
}

export class ChildOutcome {
  private constructor();
  readonly runId: string;
  readonly status:
    | "completed"
    | "waiting-input"
    | "waiting-auth"
    | "suspended"
    | "failed"
    | "cancelled"
    | "timeout";
  /** The question that it waits for, or why it failed. */
  readonly reason: string | null;
  /** Its last text. */
  readonly response: string | null;
  /** The text of all its replies, one after another, as it streamed them. */
  readonly streamed: string;
  /** Structured output, if the agent declares a schema for it. */
  readonly output: any;
  /** The number of model turns. */
  readonly steps: number;
  /** The exported keys of the run and of the thread; `null` if the agent has no state. */
  readonly state: Record<string, any> | null;
  readonly threadState: Record<string, any> | null;
  /** Returns this outcome, or throws `failed` unless the child completed. */
  completed(): this;
}

/** A question to a person. */
export interface Ticket {
  action?: string;
  message: string;
  parameters?: unknown;
  responseSchema?: Schema<any>;
  resumeMode?: "replay-tool-call" | "use-decision-as-tool-result" | "pass-decision-to-tool";
}

/** A tool's own answer; the tool's changes commit with it. */
export class Answer {
  private constructor();
}
export function success(data?: unknown, message?: string): Answer;
/** The tool's own answer that it failed, for the model. */
export function error(message: string, code?: string): Answer;
/** Waits for a person; a string is a plain question for a confirmation. */
export function suspend(ticket: Ticket | string): Answer;

/** An error that ends the call without an answer of the tool's own; nothing commits. */
export class Refusal extends Error {
  readonly kind: "invalid-arguments" | "execution-failed" | "denied" | "not-found" | "internal";
}
export function invalidArguments(message: string): Refusal;
export function failed(message: string): Refusal;
export function denied(message: string): Refusal;
export function notFound(message: string): Refusal;
/** A bug of the tool: the operator reads the message, the model does not. */
export function internal(message: string): Refusal;
