/** Calls tools as the host would, in a tool's own tests. */

/** What the tools reported; empty it with `reports.length = 0`. */
export const reports: object[];

export interface Surroundings {
  /** The snapshot: whole keys, such as `notes.items`, and their values. */
  state?: Record<string, unknown>;
  /** What a person answered, where a suspended call goes on: `{ value: true }`, say. */
  resume?: { value: unknown; [fact: string]: unknown };
  /** Whether the run is being cancelled. */
  cancel?: boolean;
}

export function run(
  component: object,
  toolName: string,
  args: object,
  surroundings?: Surroundings,
): {
  result: { status: { tag: string; val?: any }; data: any; message: string | null };
  mutations: { key: string; update: any }[];
  actions: { tag: string; val?: string }[];
};
