/** Writes Tollgate tools in JavaScript and TypeScript. */

/** JSON Schema (2020-12) of values of type `T`. */
export interface Schema<T> {
  readonly __type?: T;
  readonly [keyword: string]: unknown;
}

/** The schema of a property that may be left out. */
export interface Optional<T> extends Schema<T> {
  readonly __optional?: true;
}

/** What a schema describes: `type Args = Infer<typeof parameters>`. */
export type Infer<S> = S extends Schema<infer T> ? T : never;

export function string(description?: string, more?: object): Schema<string>;
/** Whole numbers; those beyond 2^53 lose digits, as all numbers of JavaScript do. */
export function integer(description?: string, more?: object): Schema<number>;
export function number(description?: string, more?: object): Schema<number>;
export function boolean(description?: string, more?: object): Schema<boolean>;
export function array<T>(items: Schema<T>, description?: string, more?: object): Schema<T[]>;
/** One of these values. */
export function oneOf<const T extends readonly unknown[]>(values: T, description?: string): Schema<T[number]>;

/** A property that may be left out; the schema states the default, and the arguments hold it. */
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
 * A whole number, `Integer<0, 20>` one from 0 to 20; those beyond 2^53 lose digits, as
 * all numbers of JavaScript do. To the compiler it is a `number`.
 */
export type Integer<Minimum extends number = number, Maximum extends number = number> = Bounded<
  number,
  { type: "integer"; minimum: Minimum; maximum: Maximum }
>;

/** What a component says about itself. */
export interface Component {
  /** `[a-z][a-z0-9-]{0,63}`; grants and state keys belong to it. */
  id: string;
  version?: string;
  /**
   * The state that its tools see and change. A name without a dot is a key of its
   * own; one with a dot is another component's, and needs a grant.
   */
  state?: Record<string, StateKey>;
  tools: readonly Tool<any>[];
}

export interface StateKey {
  /** The value before the first update; for keys of its own. */
  initial?: unknown;
  schema?: Schema<any>;
  /** How an update becomes part of the value; `replace` where unset. */
  reducer?: "replace" | "merge-patch" | "append" | "add" | "union" | "max";
  /** `run` (where unset) ends with the run, `thread` lives as long as the thread. */
  scope?: "run" | "thread";
  /** Whether it survives the host's process. */
  persistent?: boolean;
  read?: boolean;
  write?: boolean;
}

export interface Tool<Args> {
  /** What the model calls: `[a-zA-Z0-9_-]{1,64}`. */
  name: string;
  /** Identity in the registry; made from the name where unset. */
  id?: string;
  /** What it does, for the model; the first paragraph of the comment on `execute` where unset. */
  description?: string;
  /** The schema of its arguments; the type of the first parameter of `execute` where unset. */
  parameters?: Schema<Args>;
  category?: string;
  /** For one attempt, in milliseconds. */
  timeoutMs?: number;
  maxRetries?: number;
  /** May run again without harm. */
  idempotent?: boolean;
  /** Checks what the schema cannot say; throw `invalidArguments`. */
  validate?(args: Args): void;
  /** What it returns, at once, is the data of a success, or an `Answer`. */
  execute(args: Args, context: Context): unknown;
}

/** A tool that states its parameters: its arguments are of the type that they describe. */
export function tool<Args>(tool: Described<Args>): Described<Args>;
/** A tool whose parameters are those of the type of its arguments. */
export function tool<const T extends Tool<any>>(tool: T & { parameters?: undefined }): T;

export interface Described<Args> extends Tool<Args> {
  description: string;
  parameters: Schema<Args>;
}

/** The interface that the host calls; a tool's module exports it as `tool`. */
export function component<const C extends Component>(component: C): Served<C>;

/** A component, with the types that `tollgate build` reads. */
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
  /** Milliseconds that this attempt may still use. */
  readonly deadlineMs: number;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Set where a suspended call goes on. */
  readonly resume: Resumption | null;
  /** A key as it stood when the call began; what `update` changed does not show. */
  read(name: string): any;
  /** An update for the key's reducer; it commits with the answer, or not at all. */
  update(name: string, update: unknown): void;
  /** A note that the model sees at its next turn; needs a grant. */
  addContext(note: string): void;
  /** Hands the thread to another agent; needs a grant. */
  transferTo(agentId: string): void;
  /** Ends the enclosing loop agent; needs a grant. */
  escalate(): void;
  /** How far the call is, from 0 to 1, where that is known. */
  progress(
    fraction: number | null,
    message?: string | null,
    status?: "pending" | "running" | "done" | "failed" | "cancelled",
  ): void;
  activity(kind: string, content: string): void;
  activityDelta(kind: string, patch: object[]): void;
  /** A piece of output that may be shown before the call ends. */
  streamOutput(delta: string): void;
  /** A line for the operator; the model never sees it. */
  log(level: "trace" | "debug" | "info" | "warn" | "error", message: string): void;
  /** Whether the run is being cancelled: the moment to stop early. */
  isCancelled(): boolean;
}

export interface Resumption {
  readonly suspensionId: string;
  readonly action: string;
  readonly message: string;
  readonly decisionId: string;
  /** What the person answered; it fits the ticket's schema. */
  readonly value: any;
  readonly reason: string | null;
  readonly decidedAtMs: number;
}

/** A question to a person. */
export interface Ticket {
  action?: string;
  message: string;
  parameters?: unknown;
  responseSchema?: Schema<any>;
  resumeMode?: "replay-tool-call" | "use-decision-as-tool-result" | "pass-decision-to-tool";
}

/** A tool's own answer; what the tool changed commits with it. */
export class Answer {
  private constructor();
}
export function success(data?: unknown, message?: string): Answer;
/** The tool's own answer that it failed, for the model. */
export function error(message: string, code?: string): Answer;
/** Waits for a person; a string is a plain question for a confirmation. */
export function suspend(ticket: Ticket | string): Answer;

/** Thrown, it ends the call without an answer of the tool's own; nothing commits. */
export class Refusal extends Error {
  readonly kind: "invalid-arguments" | "execution-failed" | "denied" | "not-found" | "internal";
}
export function invalidArguments(message: string): Refusal;
export function failed(message: string): Refusal;
export function denied(message: string): Refusal;
export function notFound(message: string): Refusal;
/** The tool's own fault: the operator reads the message, the model does not. */
export function internal(message: string): Refusal;
