// Running other agents within a call. Each agent is granted by name.
//
//   tollgate_child_outcome child = tollgate_run_child(&(tollgate_child_run){
//       .agent = "translator", .messages = &(tollgate_child_message){.text = text}, .message_count = 1});
//   if (!tollgate_child_completed(call, &child)) return;
#ifndef TOLLGATE_CHILD_H
#define TOLLGATE_CHILD_H

#include "tollgate.h"

// A message, by the user unless `by_assistant` is set.
typedef struct {
  const char *text;
  bool by_assistant;
} tollgate_child_message;

// A key by its full name, and its value as JSON.
typedef struct {
  const char *key, *value;
} tollgate_entry;

typedef struct {
  // The agent's id.
  const char *agent;
  // The messages that start its thread.
  const tollgate_child_message *messages;
  size_t message_count;
  // The initial values of keys.
  const tollgate_entry *seed;
  size_t seed_count;
  // Full names of the keys to return.
  const char *const *exports;
  size_t export_count;
  // How much of its text this call's clients see.
  enum { TOLLGATE_SILENT, TOLLGATE_PASSTHROUGH, TOLLGATE_PASSTHROUGH_RAW_ERRORS } streaming;
} tollgate_child_run;

typedef enum {
  TOLLGATE_CHILD_COMPLETED,
  TOLLGATE_CHILD_WAITING_INPUT,
  TOLLGATE_CHILD_WAITING_AUTH,
  TOLLGATE_CHILD_SUSPENDED,
  TOLLGATE_CHILD_FAILED,
  TOLLGATE_CHILD_CANCELLED,
  TOLLGATE_CHILD_TIMEOUT,
} tollgate_child_status;

typedef struct {
  // Why the child could not be started; NULL if it was.
  const char *error;
  // The kind of that error.
  tollgate_refusal refusal;
  // A child that does not complete is an outcome: the tool decides how to continue.
  tollgate_child_status status;
  // The question that it waits for, or why it failed; may be NULL.
  const char *reason;
  // Its last text; NULL if there is none.
  const char *response;
  // The text of all its replies, one after another, as it streamed them.
  const char *streamed;
  // Structured output as JSON, if the agent declares a schema for it; NULL otherwise.
  const char *output;
  const char *run_id;
  // The number of model turns.
  uint32_t steps;
  // The exported keys of the run and of the thread; NULL if the agent has no state.
  const tollgate_entry *state, *thread_state;
  size_t state_count, thread_state_count;
} tollgate_child_outcome;

// Waits until the child ends or waits for a person; the wait does not count against the
// call's time.
tollgate_child_outcome tollgate_run_child(const tollgate_child_run *child);

// Returns whether the child completed, and refuses the call if it did not.
bool tollgate_child_completed(tollgate_call *call, const tollgate_child_outcome *child);

#endif
