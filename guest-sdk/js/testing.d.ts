/** Calls tools as the host would, in a tool's own tests. */

/** The tools' reports; clear them with `reports.length = 0`. */
export const reports: object[];

export interface Surroundings {
  /** The snapshot: full names of keys, such as `notes.items`, and their values. */
  state?: Record<string, unknown>;
  /** A person's answer if a suspended call resumes, such as `{ value: true }`. */
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
