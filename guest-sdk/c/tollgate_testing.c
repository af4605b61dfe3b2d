// The host's side of a call in a test. It includes the library's sources, so that a
// test compiles a single file beside its own.
#include "tollgate_testing.h"

#include "json.c"
#include "overlay.c"
#include "tollgate.c"
#include "tollgate_child.c"
#include "tollgate_http.c"

static tollgate_test *running;
static json_writer reports;

void guest_string_dup(guest_string_t *to, const char *text) {
  to->len = strlen(text);
  to->ptr = malloc(to->len + 1);
  memcpy(to->ptr, text, to->len + 1);
}

static void put_text(json_writer *list, guest_string_t text) { json_put_string(list, (char *)text.ptr, text.len); }

static void put_word(json_writer *list, const char *word) { json_put_string(list, word, strlen(word)); }

// Begins an element of an open list.
static void begin(json_writer *list, const char *word) {
  json_put(list, list->len > 1 ? ",[" : "[");
  put_word(list, word);
  json_put(list, ",");
}

void tollgate_tool_call_report_activity(guest_string_t *kind, guest_string_t *content) {
  begin(&reports, "activity");
  put_text(&reports, *kind);
  json_put(&reports, ",");
  put_text(&reports, *content);
  json_put(&reports, "]");
}

void tollgate_tool_call_report_activity_delta(guest_string_t *kind, tollgate_tool_call_json_t *patch) {
  begin(&reports, "activity-delta");
  put_text(&reports, *kind);
  json_put(&reports, ",");
  json_put_value(&reports, json_of(*patch));
  json_put(&reports, "]");
}

void tollgate_tool_call_report_progress(tollgate_tool_call_progress_status_t status, guest_string_t *maybe_message,
                                        double *maybe_progress) {
  static const char *const statuses[] = {"pending", "running", "done", "failed", "cancelled"};
  begin(&reports, "progress");
  put_word(&reports, statuses[status]);
  json_put(&reports, ",");
  if (maybe_message) {
    put_text(&reports, *maybe_message);
  } else {
    json_put(&reports, "null");
  }
  json_put(&reports, ",");
  json_put_number(&reports, maybe_progress ? *maybe_progress : NAN);
  json_put(&reports, "]");
}

void tollgate_tool_call_stream_output(guest_string_t *delta) {
  begin(&reports, "output");
  put_text(&reports, *delta);
  json_put(&reports, "]");
}

void tollgate_tool_call_log(tollgate_tool_call_level_t level, guest_string_t *message) {
  static const char *const levels[] = {"trace", "debug", "info", "warn", "error"};
  begin(&reports, "log");
  put_word(&reports, levels[level]);
  json_put(&reports, ",");
  put_text(&reports, *message);
  json_put(&reports, "]");
}

bool tollgate_tool_call_read_state(guest_string_t *key, tollgate_tool_call_json_t *value) {
  (void)key, (void)value; // all of a test's state is in the snapshot
  return false;
}

static json_value json_text_of(const char *text) { return (json_value){text, text ? strlen(text) : 0}; }

bool tollgate_tool_settings_get(guest_string_t *name, guest_string_t *value) {
  json_value setting = json_member(json_text_of(running->settings), c_text(*name));
  if (setting.len > 0) *value = text_of(json_string(setting).start);
  return setting.len > 0;
}

bool tollgate_tool_content_attach(guest_string_t *mime_type, guest_list_u8_t *data, guest_string_t *maybe_uri,
                                  guest_string_t *err) {
  (void)mime_type, (void)data, (void)maybe_uri, (void)err;
  return true;
}

bool tollgate_tool_content_link(guest_string_t *uri, guest_string_t *name, guest_string_t *maybe_description,
                                guest_string_t *maybe_mime_type, guest_string_t *err) {
  (void)uri, (void)name, (void)maybe_description, (void)maybe_mime_type, (void)err;
  return true;
}

void tollgate_http_send_all(const tollgate_http_request *requests, size_t count, tollgate_http_response *responses) {
  static const tollgate_http_response denied = {.error = "denied", .message = "The test serves no requests."};
  for (size_t at = 0; at < count; at++) responses[at] = running->serve ? running->serve(&requests[at]) : denied;
}

tollgate_child_outcome tollgate_run_child(const tollgate_child_run *child) {
  static const tollgate_child_outcome unknown = {.error = "The test runs no agents.", .refusal = TOLLGATE_NOT_FOUND};
  return running->run_child ? running->run_child(child) : unknown;
}

bool tollgate_tool_call_is_cancelled(void) { return running->cancelled; }

static void add_entry(tollgate_tool_types_snapshot_t *snapshot, const char *key, json_value value) {
  tollgate_tool_types_entry_t entry = {text_of(key), {(uint8_t *)value.start, value.len}};
  snapshot->values.ptr = realloc(snapshot->values.ptr, (snapshot->values.len + 1) * sizeof entry);
  snapshot->values.ptr[snapshot->values.len++] = entry;
}

// The test's state, and the initial values of the component's other keys.
static tollgate_tool_types_snapshot_t snapshot(const char *state) {
  tollgate_tool_types_snapshot_t taken = {0};
  json_text key;
  json_value value, object = json_text_of(state);
  for (size_t at = 0; json_next_member(object, &at, &key, &value);) add_entry(&taken, key.start, value);
  for (size_t at = 0; at < tollgate_component.key_count; at++) {
    const tollgate_key *declared = &tollgate_component.keys[at];
    const char *name = whole_key(declared->name);
    if (is_own(declared->name) && json_member(object, name).len == 0) {
      add_entry(&taken, name, json_text_of(declared->initial));
    }
  }
  return taken;
}

static tollgate_tool_types_tool_call_context_t context_of(const tollgate_test *test, const char *tool_name) {
  tollgate_tool_types_tool_call_context_t context = {
      .call_id = text_of("call-1"),
      .tool_name = text_of(tool_name),
      .run_identity = {.run_id = text_of("run-1"), .thread_id = text_of("thread-1"), .agent_id = text_of("test")},
      .agent = {.id = text_of("test")},
      .snapshot = snapshot(test->state),
      .deadline_ms = 15000,
      .attempt = 1,
  };
  if (!test->decision) return context;
  context.resume.is_some = true;
  context.resume.val = (tollgate_tool_types_resumption_t){.suspension_id = text_of("suspension-1"),
                                                          .action = text_of("confirm"),
                                                          .message = text_of(""),
                                                          .decision_id = text_of("decision-1"),
                                                          .value = text_of(test->decision),
                                                          .decided_at_ms = 1};
  return context;
}

static const char *ticket_of(const tollgate_tool_types_suspend_ticket_t *asked) {
  static const char *const modes[] = {"replay-tool-call", "use-decision-as-tool-result", "pass-decision-to-tool"};
  json_writer ticket = {0};
  json_put(&ticket, "{\"action\":");
  put_text(&ticket, asked->action);
  json_put(&ticket, ",\"message\":");
  put_text(&ticket, asked->message);
  json_put(&ticket, ",\"parameters\":");
  json_put_value(&ticket, json_of(asked->parameters));
  json_put(&ticket, ",\"response_schema\":");
  json_put(&ticket, asked->response_schema.is_some ? c_text(asked->response_schema.val) : "null");
  json_put(&ticket, ",\"resume_mode\":");
  put_word(&ticket, modes[asked->resume_mode]);
  json_put(&ticket, "}");
  return ticket.start;
}

static const char *updates_of(const tollgate_tool_types_list_mutation_t *mutations) {
  json_writer list = {0};
  json_put(&list, "[");
  for (size_t at = 0; at < mutations->len; at++) {
    begin(&list, c_text(mutations->ptr[at].key));
    json_put_value(&list, json_of(mutations->ptr[at].update));
    json_put(&list, "]");
  }
  json_put(&list, "]");
  return list.start;
}

static const char *actions_of(const tollgate_tool_types_list_action_t *actions) {
  static const char *const kinds[] = {"transfer_to_agent", "escalate", "add_context"};
  json_writer list = {0};
  json_put(&list, "[");
  for (size_t at = 0; at < actions->len; at++) {
    const tollgate_tool_types_action_t *action = &actions->ptr[at];
    begin(&list, kinds[action->tag]);
    if (action->tag == TOLLGATE_TOOL_TYPES_ACTION_ESCALATE) {
      json_put(&list, "null]");
    } else {
      put_text(&list, action->val.add_context);
      json_put(&list, "]");
    }
  }
  json_put(&list, "]");
  return list.start;
}

static void put_answer(tollgate_test *test, const tollgate_tool_types_tool_output_t *output) {
  static const char *const statuses[] = {"success", "pending", "error"};
  const tollgate_tool_types_tool_result_t *result = &output->result;
  test->status = statuses[result->status.tag];
  test->data = c_text(result->data);
  test->message = c_option(result->message);
  bool asks = result->status.tag == TOLLGATE_TOOL_TYPES_TOOL_STATUS_PENDING && result->status.val.pending.is_some;
  test->ticket = asks ? ticket_of(&result->status.val.pending.val) : NULL;
  test->updates = updates_of(&output->mutations);
  test->actions = actions_of(&output->actions);
}

void tollgate_test_call(tollgate_test *test, const char *tool_name, const char *args) {
  static const char *const refusals[] = {"invalid_arguments", "execution_failed", "denied", "not_found", "internal"};
  tollgate_tool_types_tool_call_context_t context = context_of(test, tool_name);
  tollgate_tool_types_tool_output_t output = {0};
  tollgate_tool_types_tool_error_t error = {0};
  guest_string_t name = text_of(tool_name);
  tollgate_tool_types_json_t text = text_of(args);
  running = test;
  reports = (json_writer){0};
  json_put(&reports, "[");
  test->data = test->message = test->ticket = NULL;
  test->updates = test->actions = "[]";
  if (exports_tollgate_tool_tool_validate_args(&name, &text, &error) &&
      exports_tollgate_tool_tool_execute(&text, &context, &output, &error)) {
    put_answer(test, &output);
  } else {
    test->status = refusals[error.tag];
    test->message = c_text(error.val.internal);
  }
  json_put(&reports, "]");
  test->reports = reports.start;
}
