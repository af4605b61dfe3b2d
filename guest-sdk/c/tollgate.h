// Writes Tollgate tools in C. A tool's file defines `tollgate_component`; each tool
// of it has a function that reads its call and answers it once:
//
//   static void shout(tollgate_call *call) {
//     json_text text = json_string(json_member(call->args, "text"));
//     ...
//     tollgate_succeed(call, &answer);
//   }
//
// Each call runs in a fresh instance: nothing that a tool keeps in variables is
// there at the next call, and no memory needs to be given back. What shall last is
// state.
#ifndef TOLLGATE_H
#define TOLLGATE_H

#include "json.h"

typedef struct tollgate_call tollgate_call;

typedef struct {
  // What the model calls: [a-zA-Z0-9_-]{1,64}.
  const char *name;
  // Identity in the registry: [a-z][a-z0-9-]{0,63}.
  const char *id;
  // What it does, for the model.
  const char *description;
  // JSON Schema of the arguments.
  const char *parameters;
  // For grouping; may be NULL.
  const char *category;
  // For one attempt, in milliseconds; 0 for the host's default.
  uint32_t timeout_ms;
  // May run again without harm.
  bool idempotent;
  // Answers the call.
  void (*execute)(tollgate_call *call);
  // Checks what the schema cannot say: returns what is wrong, or NULL. May be NULL.
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

// A state key of the component's own.
typedef struct {
  const char *name;
  // The value before the first update, as JSON.
  const char *initial;
  // JSON Schema of the value; may be NULL.
  const char *schema;
  tollgate_reducer reducer;
  // Lives as long as the thread; otherwise it ends with the run.
  bool thread;
  // Survives the host's process.
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

// What the component is; a tool's file defines it.
extern const tollgate_component_descriptor tollgate_component;

// The call in progress.
struct tollgate_call {
  // Fit the tool's schema.
  json_value args;
  const char *tool_name, *call_id, *run_id, *thread_id, *agent_id;
  // 1 for the first.
  uint32_t attempt;
  // Milliseconds that this attempt may still use.
  uint32_t deadline_ms;
  // What a person answered, where a suspended call goes on; else of length 0.
  json_value decision;
  // Where the answer is put.
  void *out, *error;
  const void *context;
  bool refused;
};

// The answers; a tool gives one. What it changed commits with it.
void tollgate_succeed(tollgate_call *call, const json_writer *data);
// The tool's own answer that it failed, for the model.
void tollgate_fail(tollgate_call *call, const char *code, const char *message);

// A question to a person.
typedef struct {
  const char *action, *message;
  // JSON; what the person should see beside the question.
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

// A key as it stood when the call began, as JSON; of length 0 where it has no value.
json_value tollgate_read(const tollgate_call *call, const char *name);
// An update for the key's reducer, as JSON; it commits with the answer.
void tollgate_update(tollgate_call *call, const char *name, const char *update);

// Reports: sent at once, bounded, not stored.
typedef enum {
  TOLLGATE_PENDING,
  TOLLGATE_RUNNING,
  TOLLGATE_DONE,
  TOLLGATE_FAILED,
  TOLLGATE_CANCELLED,
} tollgate_progress_status;
void tollgate_progress(tollgate_progress_status status, double fraction, const char *message);
void tollgate_stream_output(const char *delta);
typedef enum { TOLLGATE_TRACE, TOLLGATE_DEBUG, TOLLGATE_INFO, TOLLGATE_WARN, TOLLGATE_ERROR } tollgate_level;
void tollgate_log(tollgate_level level, const char *message);
// Whether the run is being cancelled: the moment to stop early.
bool tollgate_is_cancelled(void);

#endif
