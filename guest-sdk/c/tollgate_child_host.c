// Connects tollgate_child.h to the generated bindings.
#include "tollgate_child.h"

#include "bindings/guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static guest_string_t text_of(const char *text) {
  guest_string_t copied;
  guest_string_dup(&copied, text);
  return copied;
}

static const char *c_text(guest_string_t text) {
  char *copied = malloc(text.len + 1);
  memcpy(copied, text.ptr, text.len);
  copied[text.len] = 0;
  return copied;
}

static const char *c_option(guest_option_string_t text) { return text.is_some ? c_text(text.val) : NULL; }

static tollgate_tool_agents_child_run_t lower(const tollgate_child_run *child) {
  tollgate_tool_agents_child_run_t run = {.agent_id = text_of(child->agent),
                                          .text = (tollgate_tool_agents_streaming_t)child->streaming};
  run.messages.len = child->message_count;
  run.messages.ptr = calloc(child->message_count + 1, sizeof *run.messages.ptr);
  for (size_t at = 0; at < child->message_count; at++) {
    run.messages.ptr[at].role = child->messages[at].by_assistant;
    run.messages.ptr[at].text = text_of(child->messages[at].text);
  }
  run.seed.len = child->seed_count;
  run.seed.ptr = calloc(child->seed_count + 1, sizeof *run.seed.ptr);
  for (size_t at = 0; at < child->seed_count; at++) {
    run.seed.ptr[at].key = text_of(child->seed[at].key);
    run.seed.ptr[at].value = text_of(child->seed[at].value);
  }
  run.exports.len = child->export_count;
  run.exports.ptr = calloc(child->export_count + 1, sizeof *run.exports.ptr);
  for (size_t at = 0; at < child->export_count; at++) run.exports.ptr[at] = text_of(child->exports[at]);
  return run;
}

static const tollgate_entry *entries_of(const tollgate_tool_agents_option_list_entry_t *from, size_t *count) {
  if (!from->is_some) return NULL;
  *count = from->val.len;
  tollgate_entry *entries = calloc(from->val.len + 1, sizeof *entries);
  for (size_t at = 0; at < from->val.len; at++) {
    entries[at].key = c_text(from->val.ptr[at].key);
    entries[at].value = c_text(from->val.ptr[at].value);
  }
  return entries;
}

static tollgate_child_outcome lift(const tollgate_tool_agents_child_outcome_t *from) {
  tollgate_child_outcome outcome = {.status = (tollgate_child_status)from->status.tag,
                                    .run_id = c_text(from->run_id),
                                    .response = c_option(from->response),
                                    .streamed = c_text(from->streamed),
                                    .steps = from->steps};
  if (from->output.is_some) outcome.output = c_text(from->output.val);
  if (outcome.status == TOLLGATE_CHILD_FAILED) {
    outcome.reason = c_text(from->status.val.failed);
  } else if (outcome.status >= TOLLGATE_CHILD_WAITING_INPUT && outcome.status <= TOLLGATE_CHILD_SUSPENDED) {
    outcome.reason = c_option(from->status.val.suspended);
  }
  outcome.state = entries_of(&from->state, &outcome.state_count);
  outcome.thread_state = entries_of(&from->thread_state, &outcome.thread_state_count);
  return outcome;
}

static tollgate_child_outcome refused(tollgate_refusal refusal, const char *before, const char *what,
                                      const char *after) {
  size_t room = strlen(before) + strlen(what) + strlen(after) + 1;
  char *message = malloc(room);
  snprintf(message, room, "%s%s%s", before, what, after);
  return (tollgate_child_outcome){.error = message, .refusal = refusal};
}

static const char *joined(guest_list_string_t features) {
  json_writer list = {0};
  for (size_t at = 0; at < features.len; at++) {
    json_put(&list, at ? ", " : "");
    json_put(&list, c_text(features.ptr[at]));
  }
  return list.start ? list.start : "";
}

static tollgate_child_outcome unstarted(const tollgate_tool_agents_child_error_t *error) {
  char depth[16];
  switch (error->tag) {
    case TOLLGATE_TOOL_AGENTS_CHILD_ERROR_AGENT_NOT_FOUND:
      return refused(TOLLGATE_NOT_FOUND, "There is no agent `", c_text(error->val.agent_not_found), "`.");
    case TOLLGATE_TOOL_AGENTS_CHILD_ERROR_NOT_GRANTED:
      return refused(TOLLGATE_DENIED, "`", c_text(error->val.not_granted), "` is not granted to this component.");
    case TOLLGATE_TOOL_AGENTS_CHILD_ERROR_BAD_SEED:
      return refused(TOLLGATE_EXECUTION_FAILED, "The child agent refuses its first state: ",
                     c_text(error->val.bad_seed), ".");
    case TOLLGATE_TOOL_AGENTS_CHILD_ERROR_UNSUPPORTED:
      return refused(TOLLGATE_EXECUTION_FAILED, "The child agent's backend cannot do what is asked: ",
                     joined(error->val.unsupported), ".");
    case TOLLGATE_TOOL_AGENTS_CHILD_ERROR_TOO_DEEP:
      snprintf(depth, sizeof depth, "%u", (unsigned)error->val.too_deep);
      return refused(TOLLGATE_EXECUTION_FAILED, "A child agent at depth ", depth,
                     " is too deep: at most 4 stand below one another.");
    default:
      return refused(TOLLGATE_EXECUTION_FAILED, "", c_text(error->val.execution_failed), "");
  }
}

tollgate_child_outcome tollgate_run_child(const tollgate_child_run *child) {
  tollgate_tool_agents_child_run_t run = lower(child);
  tollgate_tool_agents_child_outcome_t outcome;
  tollgate_tool_agents_child_error_t error;
  return tollgate_tool_agents_run_child(&run, &outcome, &error) ? lift(&outcome) : unstarted(&error);
}
