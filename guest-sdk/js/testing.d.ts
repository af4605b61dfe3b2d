/** Calls tools as the host would, in a tool's own tests. */

/** The tools' reports; clear them with `reports.length = 0`. */
export const reports: object[];

/** The child runs that tools asked for; clear them with `children.length = 0`. */
export const children: { agentId: string; messages: { role: string; text: string }[] }[];

/**
 * The images, files and links that tools attached; clear them with `attachments.length = 0`. A link
 * has a `uri`, a `name` and a `description`; an image or file has a `mimeType` and `data`.
 */
export const attachments: {
  mimeType?: string;
  data?: Uint8Array;
  uri?: string | null;
  name?: string;
  description?: string;
}[];

export interface Surroundings {
  /**
   * The snapshot: full names of keys, such as `notes.items`, and their values. The component's other
   * keys have their initial values.
   */
  state?: Record<string, unknown>;
  /** A person's answer if a suspended call resumes, such as `{ value: true }`. */
  resume?: { value: unknown; [fact: string]: unknown };
  /** Whether the run is being cancelled. */
  cancel?: boolean;
  /** The settings that an operator granted. */
  settings?: Record<string, string>;
  /** The outcomes of child runs, in order: `{ response: "..." }`, `{ status: "failed", reason: "..." }`. */
  children?: { status?: string; reason?: string; response?: string; output?: unknown }[];
}

export interface Outcome {
  result: { status: { tag: string; val?: any }; data: any; message: string | null };
  mutations: { key: string; update: any }[];
  actions: { tag: string; val?: string }[];
}

/** Calls a tool. Await the outcome if the tool is `async`. */
export function run(
  component: object,
  toolName: string,
  args: object,
  surroundings?: Surroundings,
): Outcome & PromiseLike<Outcome>;
