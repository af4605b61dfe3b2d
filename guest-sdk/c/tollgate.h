// Writing Tollgate tools in C. A tool's file defines `tollgate_component`; each of
// its tools has a function that reads its call and answers it once:
//
//   static void shout(tollgate_call *call) {
//     json_text text = json_string(json_member(call->args, "text"));
//     ...
//     tollgate_succeed(call, &answer);
//   }
//
// Each call runs in a fresh instance: variables do not keep their values until the
// next call, and no memory needs to be freed. Use state for values that have to last.
#ifndef TOLLGATE_H
#define TOLLGATE_H

#include "json.h"

typedef struct tollgate_call tollgate_call;

typedef struct {
  // The name that the model uses: [a-zA-Z0-9_-]{1,64}.
  const char *name;
  // The id in the registry: [a-z][a-z0-9_-]{0,63}.
  const char *id;
  // The tool's purpose, for the model.
  const char *description;
  // JSON Schema of the arguments.
  const char *parameters;
  // A category for grouping; may be NULL.
  const char *category;
  // The time limit of one attempt in milliseconds; 0 for the host's default.
  uint32_t timeout_ms;
  // Attempts after the first, such as &(const uint32_t){1}; NULL for the host's default.
  const uint32_t *max_retries;
  // Whether running again is harmless.
  bool idempotent;
  // Answers the call.
  void (*execute)(tollgate_call *call);
  // Checks constraints that the schema cannot express: returns an error message or
  // NULL. May be NULL.
  const char *(*validate)(json_value args);
} tollgate_tool;

typedef enum {
  TOLLGATE_REPLACE,
  TOLLGATE_MERGE_PATCH,
  TOLLGATE_APPEND,
  TOLLGATE_ADD,
  TOLLGATE_UNION,
  TOLLGATE_MAX,
} tollgate_reducer;

// The access of tools to a key. By default, own keys are read and written, and other
// components' keys are read.
typedef enum {
  TOLLGATE_UNSTATED,
  TOLLGATE_READ_ONLY,
  TOLLGATE_WRITE_ONLY,
  TOLLGATE_READ_WRITE,
} tollgate_access;

// A state key.
typedef struct {
  // The component's own key if it has no dot. With a dot, it is another component's,
  // which needs a grant; then only `access` and `reducer` are used below.
  const char *name;
  tollgate_access access;
  // The value before the first update, as JSON.
  const char *initial;
  // JSON Schema of the value; may be NULL.
  const char *schema;
  tollgate_reducer reducer;
  // Whether it lives as long as the thread; otherwise it ends with the run.
  bool thread;
  // Whether it outlives the host's process.
  bool persistent;
} tollgate_key;

typedef struct {
  // [a-z][a-z0-9-]{0,63}; grants and state keys belong to it.
  const char *id;
  const char *version;
  const tollgate_tool *tools;
  size_t tool_count;
  const tollgate_key *keys;
  size_t key_count;
} tollgate_component_descriptor;

// The description of the component; a tool's file defines it.
extern const tollgate_component_descriptor tollgate_component;

// A person's decision that resumes a suspended call.
typedef struct {
  // The ticket's action and message.
  const char *suspension_id, *action, *message, *decision_id;
  // The person's answer; it fits the ticket's schema.
  json_value value;
  // The reason in the person's words; may be NULL.
  const char *reason;
  // Milliseconds since the Unix epoch.
  uint64_t decided_at_ms;
} tollgate_resumption;

// The call in progress.
struct tollgate_call {
  // The arguments; they fit the tool's schema.
  json_value args;
  const char *tool_name, *call_id, *run_id, *thread_id, *agent_id;
  // The calling agent's purpose; NULL if unknown.
  const char *agent_description;
  // The agents that it may delegate to.
  const char *const *delegates;
  size_t delegate_count;
  // The call that started this run by delegation; NULL if there is none.
  const char *parent_run_id, *parent_thread_id, *parent_call_id;
  // The revision of the snapshot that tollgate_read reads.
  uint64_t revision;
  // The number of this attempt, counted from 1.
  uint32_t attempt;
  // The remaining time of this attempt in milliseconds.
  uint32_t deadline_ms;
  // Set if a person answered this tool's own question, NULL otherwise. The answer is
  // also in `decision`, whose length is 0 otherwise.
  const tollgate_resumption *resume;
  json_value decision;
  // The location of the answer.
  void *out, *error;
  const void *context;
  bool refused;
};

// The answers; a tool gives one. Its changes commit with it.
void tollgate_succeed(tollgate_call *call, const json_writer *data);
// With a message beside the data.
void tollgate_succeed_with_message(tollgate_call *call, const json_writer *data, const char *message);
// The tool's own answer that it failed, for the model; the code may be NULL.
void tollgate_fail(tollgate_call *call, const char *code, const char *message);
// Waits for a person's plain confirmation.
void tollgate_ask(tollgate_call *call, const char *message);

// A question to a person.
typedef struct {
  const char *action, *message;
  // JSON to show the person beside the question.
  const char *parameters;
  // JSON Schema of the answer; may be NULL.
  const char *response_schema;
  enum {
    TOLLGATE_REPLAY_TOOL_CALL,
    TOLLGATE_USE_DECISION_AS_TOOL_RESULT,
    TOLLGATE_PASS_DECISION_TO_TOOL,
  } resume_mode;
} tollgate_ticket;
void tollgate_suspend(tollgate_call *call, tollgate_ticket ticket);

// Ends the call without an answer of the tool's own; nothing commits.
typedef enum {
  TOLLGATE_INVALID_ARGUMENTS,
  TOLLGATE_EXECUTION_FAILED,
  TOLLGATE_DENIED,
  TOLLGATE_NOT_FOUND,
  TOLLGATE_INTERNAL,
} tollgate_refusal;
void tollgate_refuse(tollgate_call *call, tollgate_refusal kind, const char *message);

// Returns the value of a key when the call began, with this call's own updates, as JSON;
// its length is 0 if it has no value. For updates to another component's key, its
// declaration has to state its reducer if that is not TOLLGATE_REPLACE.
json_value tollgate_read(const tollgate_call *call, const char *name);
// Adds an update for the key's reducer, as JSON; it commits with the answer.
void tollgate_update(tollgate_call *call, const char *name, const char *update);

// Returns the setting that an operator granted; NULL if there is none.
const char *tollgate_setting(const char *name);

// Attaches an image or a sound to the result: the media type is image/... or audio/....
// With a URI, attaches a file; the model reads its text if it is UTF-8 and its media type
// is text/..., JSON, XML or empty. Returns NULL, or the reason why it is refused.
const char *tollgate_attach(const char *mime_type, const void *data, size_t length);
const char *tollgate_attach_file(const char *uri, const char *mime_type, const void *data, size_t length);
// Attaches a link that the client may fetch itself; the description may be NULL.
const char *tollgate_attach_link(const char *uri, const char *name, const char *description);

// Requests to the agent loop; each needs its grant.
// Adds a note that the model sees on its next turn.
void tollgate_add_context(tollgate_call *call, const char *note);
// Hands the thread over to another agent.
void tollgate_transfer_to(tollgate_call *call, const char *agent_id);
// Ends the enclosing loop agent.
void tollgate_escalate(tollgate_call *call);

// Reports: sent at once, bounded, not stored.
typedef enum {
  TOLLGATE_PENDING,
  TOLLGATE_RUNNING,
  TOLLGATE_DONE,
  TOLLGATE_FAILED,
  TOLLGATE_CANCELLED,
} tollgate_progress_status;
// Reports the progress of the call from 0 to 1, or unknown. The message may be NULL.
#define TOLLGATE_UNKNOWN (0.0 / 0.0)
void tollgate_progress(tollgate_progress_status status, double fraction, const char *message);
// Replaces the current activity of this kind that clients show.
void tollgate_activity(const char *kind, const char *content);
// Changes the current activity of this kind by a JSON Patch (RFC 6902).
void tollgate_activity_delta(const char *kind, const char *patch);
void tollgate_stream_output(const char *delta);
typedef enum { TOLLGATE_TRACE, TOLLGATE_DEBUG, TOLLGATE_INFO, TOLLGATE_WARN, TOLLGATE_ERROR } tollgate_level;
void tollgate_log(tollgate_level level, const char *message);
// Returns whether the run is being cancelled, so that the tool can stop early.
bool tollgate_is_cancelled(void);

#endif
