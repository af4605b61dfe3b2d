// Connects the generated bindings to tollgate.h.
#include "tollgate.h"

#include "bindings/guest.h"
#include "overlay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static guest_string_t text_of(const char *text) {
  guest_string_t copied;
  guest_string_dup(&copied, text ? text : "");
  return copied;
}

static const char *c_text(guest_string_t text) {
  char *copied = malloc(text.len + 1);
  memcpy(copied, text.ptr, text.len);
  copied[text.len] = 0;
  return copied;
}

static const char *c_option(guest_option_string_t text) { return text.is_some ? c_text(text.val) : NULL; }

static bool is_own(const char *name) { return !strchr(name, '.'); }

static const char *whole_key(const char *name) {
  if (!is_own(name)) return name;
  size_t room = strlen(tollgate_component.id) + strlen(name) + 2;
  char *key = malloc(room);
  snprintf(key, room, "%s.%s", tollgate_component.id, name);
  return key;
}

static void describe_tool(const tollgate_tool *tool, tollgate_tool_types_tool_descriptor_t *to) {
  to->id = text_of(tool->id);
  to->name = text_of(tool->name);
  to->description = text_of(tool->description);
  to->parameters = text_of(tool->parameters);
  to->category.is_some = tool->category != NULL;
  to->category.val = text_of(tool->category);
  to->execution.timeout_ms.is_some = tool->timeout_ms != 0;
  to->execution.timeout_ms.val = tool->timeout_ms;
  to->execution.max_retries.is_some = tool->max_retries != NULL;
  if (tool->max_retries) to->execution.max_retries.val = *tool->max_retries;
  to->execution.idempotent = tool->idempotent;
  to->execution.validates = tool->validate != NULL;
}

static void describe_key(const tollgate_key *key, tollgate_tool_types_state_access_t *to) {
  to->key = text_of(whole_key(key->name));
  to->read = key->access != TOLLGATE_WRITE_ONLY;
  to->write = key->access == TOLLGATE_UNSTATED ? is_own(key->name) : key->access != TOLLGATE_READ_ONLY;
  to->defines.is_some = is_own(key->name);
  if (!to->defines.is_some) return;
  tollgate_tool_types_state_key_t *defined = &to->defines.val;
  defined->initial = text_of(key->initial);
  defined->schema.is_some = key->schema != NULL;
  defined->schema.val = text_of(key->schema);
  defined->reducer = (tollgate_tool_types_reducer_t)key->reducer;
  defined->scope = key->thread;
  defined->persistent = key->persistent;
}

void exports_tollgate_tool_tool_describe(tollgate_tool_types_component_descriptor_t *to) {
  to->id = text_of(tollgate_component.id);
  to->version = text_of(tollgate_component.version);
  to->tools.len = tollgate_component.tool_count;
  to->tools.ptr = calloc(to->tools.len, sizeof *to->tools.ptr);
  for (size_t at = 0; at < to->tools.len; at++) describe_tool(&tollgate_component.tools[at], &to->tools.ptr[at]);
  to->state.len = tollgate_component.key_count;
  to->state.ptr = calloc(to->state.len, sizeof *to->state.ptr);
  for (size_t at = 0; at < to->state.len; at++) describe_key(&tollgate_component.keys[at], &to->state.ptr[at]);
}

static const tollgate_tool *find_tool(guest_string_t name) {
  for (size_t at = 0; at < tollgate_component.tool_count; at++) {
    const tollgate_tool *tool = &tollgate_component.tools[at];
    if (strlen(tool->name) == name.len && memcmp(tool->name, name.ptr, name.len) == 0) return tool;
  }
  return NULL;
}

// Returns arguments followed by a NUL, so that numbers at their end can be read.
static json_value json_of(guest_string_t text) { return (json_value){c_text(text), text.len}; }

bool exports_tollgate_tool_tool_validate_args(guest_string_t *tool_name, tollgate_tool_types_json_t *args,
                                              tollgate_tool_types_tool_error_t *error) {
  const tollgate_tool *tool = find_tool(*tool_name);
  const char *wrong = tool && tool->validate ? tool->validate(json_of(*args)) : NULL;
  if (!wrong) return true;
  error->tag = TOLLGATE_INVALID_ARGUMENTS;
  error->val.invalid_arguments = text_of(wrong);
  return false;
}

static void read_caller(tollgate_call *call, const tollgate_tool_types_tool_call_context_t *context) {
  const tollgate_tool_types_run_identity_t *run = &context->run_identity;
  call->tool_name = c_text(context->tool_name);
  call->call_id = c_text(context->call_id);
  call->run_id = c_text(run->run_id);
  call->thread_id = c_text(run->thread_id);
  call->agent_id = c_text(run->agent_id);
  call->parent_run_id = c_option(run->parent_run_id);
  call->parent_thread_id = c_option(run->parent_thread_id);
  call->parent_call_id = c_option(run->parent_call_id);
  call->agent_description = c_option(context->agent.description);
  call->delegate_count = context->agent.delegates.len;
  const char **delegates = calloc(call->delegate_count + 1, sizeof *delegates);
  for (size_t at = 0; at < call->delegate_count; at++) delegates[at] = c_text(context->agent.delegates.ptr[at]);
  call->delegates = delegates;
}

static void read_resumption(tollgate_call *call, const tollgate_tool_types_resumption_t *from) {
  tollgate_resumption *resume = calloc(1, sizeof *resume);
  resume->suspension_id = c_text(from->suspension_id);
  resume->action = c_text(from->action);
  resume->message = c_text(from->message);
  resume->decision_id = c_text(from->decision_id);
  resume->value = json_of(from->value);
  resume->reason = c_option(from->reason);
  resume->decided_at_ms = from->decided_at_ms;
  call->resume = resume;
  call->decision = resume->value;
}

bool exports_tollgate_tool_tool_execute(tollgate_tool_types_json_t *args,
                                        tollgate_tool_types_tool_call_context_t *context,
                                        tollgate_tool_types_tool_output_t *out,
                                        tollgate_tool_types_tool_error_t *error) {
  memset(out, 0, sizeof *out);
  tollgate_call call = {
      .args = json_of(*args),
      .revision = context->snapshot.revision,
      .attempt = context->attempt,
      .deadline_ms = context->deadline_ms,
      .out = out,
      .error = error,
      .context = context,
  };
  read_caller(&call, context);
  if (context->resume.is_some) read_resumption(&call, &context->resume.val);
  const tollgate_tool *tool = find_tool(context->tool_name);
  if (tool) {
    tool->execute(&call);
  } else {
    tollgate_refuse(&call, TOLLGATE_INTERNAL, "the component has no such tool");
  }
  if (!call.refused && !out->result.data.ptr) tollgate_refuse(&call, TOLLGATE_INTERNAL, "the tool gave no answer");
  return !call.refused;
}

static tollgate_tool_types_tool_result_t *answer(tollgate_call *call) {
  return &((tollgate_tool_types_tool_output_t *)call->out)->result;
}

void tollgate_succeed(tollgate_call *call, const json_writer *data) {
  answer(call)->status.tag = TOLLGATE_TOOL_TYPES_TOOL_STATUS_SUCCESS;
  answer(call)->data = (guest_string_t){(uint8_t *)data->start, data->len};
}

static void put_message(tollgate_call *call, const char *message) {
  answer(call)->message.is_some = true;
  answer(call)->message.val = text_of(message);
}

void tollgate_succeed_with_message(tollgate_call *call, const json_writer *data, const char *message) {
  tollgate_succeed(call, data);
  put_message(call, message);
}

void tollgate_fail(tollgate_call *call, const char *code, const char *message) {
  json_writer data = {0};
  if (code) {
    json_put(&data, "{\"error\":{\"code\":");
    json_put_string(&data, code, strlen(code));
    json_put(&data, ",\"message\":");
    json_put_string(&data, message, strlen(message));
    json_put(&data, "}}");
  } else {
    json_put(&data, "null");
  }
  tollgate_succeed_with_message(call, &data, message);
  answer(call)->status.tag = TOLLGATE_TOOL_TYPES_TOOL_STATUS_ERROR;
}

void tollgate_ask(tollgate_call *call, const char *message) {
  answer(call)->data = text_of("null");
  answer(call)->status.tag = TOLLGATE_TOOL_TYPES_TOOL_STATUS_PENDING;
  answer(call)->status.val.pending.is_some = false;
  put_message(call, message);
}

void tollgate_suspend(tollgate_call *call, tollgate_ticket asked) {
  tollgate_ask(call, asked.message);
  answer(call)->status.val.pending.is_some = true;
  tollgate_tool_types_suspend_ticket_t *ticket = &answer(call)->status.val.pending.val;
  ticket->action = text_of(asked.action ? asked.action : "confirm");
  ticket->message = text_of(asked.message);
  ticket->parameters = text_of(asked.parameters ? asked.parameters : "{}");
  ticket->response_schema.is_some = asked.response_schema != NULL;
  ticket->response_schema.val = text_of(asked.response_schema);
  ticket->resume_mode = (tollgate_tool_types_resume_mode_t)asked.resume_mode;
}

void tollgate_refuse(tollgate_call *call, tollgate_refusal kind, const char *message) {
  tollgate_tool_types_tool_error_t *error = call->error;
  error->tag = (uint8_t)kind;
  error->val.internal = text_of(message);
  call->refused = true;
}

static bool is_equal(guest_string_t a, guest_string_t b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

// The value of a key when the call began.
static json_value stored(const tollgate_call *call, guest_string_t key) {
  const tollgate_tool_types_tool_call_context_t *context = call->context;
  for (size_t at = 0; at < context->snapshot.values.len; at++) {
    tollgate_tool_types_entry_t *entry = &context->snapshot.values.ptr[at];
    if (is_equal(entry->key, key)) return json_of(entry->value);
  }
  tollgate_tool_types_json_t value;
  return tollgate_tool_call_read_state(&key, &value) ? json_of(value) : (json_value){0};
}

static tollgate_reducer reducer_of(const char *whole) {
  for (size_t at = 0; at < tollgate_component.key_count; at++) {
    const tollgate_key *key = &tollgate_component.keys[at];
    if (strcmp(whole_key(key->name), whole) == 0) return key->reducer;
  }
  return TOLLGATE_REPLACE;
}

json_value tollgate_read(const tollgate_call *call, const char *name) {
  const tollgate_tool_types_list_mutation_t *mutations = &((tollgate_tool_types_tool_output_t *)call->out)->mutations;
  const char *whole = whole_key(name);
  guest_string_t key = text_of(whole);
  json_value value = stored(call, key);
  for (size_t at = 0; at < mutations->len; at++) {
    if (!is_equal(mutations->ptr[at].key, key)) continue;
    value = tollgate_reduced(reducer_of(whole), value, json_of(mutations->ptr[at].update));
  }
  return value;
}

const char *tollgate_setting(const char *name) {
  guest_string_t key = text_of(name), value;
  return tollgate_tool_settings_get(&key, &value) ? c_text(value) : NULL;
}

static const char *attach(const char *mime_type, const void *data, size_t length, const char *uri) {
  guest_string_t type_text = text_of(mime_type), uri_text = text_of(uri), error;
  guest_list_u8_t bytes = {(uint8_t *)data, length};
  return tollgate_tool_content_attach(&type_text, &bytes, uri ? &uri_text : NULL, &error) ? NULL : c_text(error);
}

const char *tollgate_attach(const char *mime_type, const void *data, size_t length) {
  return attach(mime_type, data, length, NULL);
}

const char *tollgate_attach_file(const char *uri, const char *mime_type, const void *data, size_t length) {
  return attach(mime_type, data, length, uri);
}

const char *tollgate_attach_link(const char *uri, const char *name, const char *description) {
  guest_string_t uri_text = text_of(uri), name_text = text_of(name), text = text_of(description), error;
  return tollgate_tool_content_link(&uri_text, &name_text, description ? &text : NULL, NULL, &error) ? NULL : c_text(error);
}

void tollgate_update(tollgate_call *call, const char *name, const char *update) {
  tollgate_tool_types_list_mutation_t *mutations = &((tollgate_tool_types_tool_output_t *)call->out)->mutations;
  mutations->ptr = realloc(mutations->ptr, (mutations->len + 1) * sizeof *mutations->ptr);
  mutations->ptr[mutations->len++] = (tollgate_tool_types_mutation_t){text_of(whole_key(name)), text_of(update)};
}

static void act(tollgate_call *call, tollgate_tool_types_action_t action) {
  tollgate_tool_types_list_action_t *actions = &((tollgate_tool_types_tool_output_t *)call->out)->actions;
  actions->ptr = realloc(actions->ptr, (actions->len + 1) * sizeof *actions->ptr);
  actions->ptr[actions->len++] = action;
}

void tollgate_add_context(tollgate_call *call, const char *note) {
  tollgate_tool_types_action_t action = {.tag = TOLLGATE_TOOL_TYPES_ACTION_ADD_CONTEXT};
  action.val.add_context = text_of(note);
  act(call, action);
}

void tollgate_transfer_to(tollgate_call *call, const char *agent_id) {
  tollgate_tool_types_action_t action = {.tag = TOLLGATE_TOOL_TYPES_ACTION_TRANSFER_TO_AGENT};
  action.val.transfer_to_agent = text_of(agent_id);
  act(call, action);
}

void tollgate_escalate(tollgate_call *call) {
  act(call, (tollgate_tool_types_action_t){.tag = TOLLGATE_TOOL_TYPES_ACTION_ESCALATE});
}

void tollgate_activity(const char *kind, const char *content) {
  guest_string_t kind_text = text_of(kind), content_text = text_of(content);
  tollgate_tool_call_report_activity(&kind_text, &content_text);
}

void tollgate_activity_delta(const char *kind, const char *patch) {
  guest_string_t kind_text = text_of(kind), patch_text = text_of(patch);
  tollgate_tool_call_report_activity_delta(&kind_text, &patch_text);
}

void tollgate_progress(tollgate_progress_status status, double fraction, const char *message) {
  guest_string_t text = text_of(message);
  tollgate_tool_call_report_progress((tollgate_tool_call_progress_status_t)status, message ? &text : NULL,
                                     isnan(fraction) ? NULL : &fraction);
}

void tollgate_stream_output(const char *delta) {
  guest_string_t text = text_of(delta);
  tollgate_tool_call_stream_output(&text);
}

void tollgate_log(tollgate_level level, const char *message) {
  guest_string_t text = text_of(message);
  tollgate_tool_call_log((tollgate_tool_call_level_t)level, &text);
}

bool tollgate_is_cancelled(void) { return tollgate_tool_call_is_cancelled(); }

// The bindings ask for an object file that holds the contract's type. `tollgate
// build` writes that type into the module itself.
void __component_type_object_force_link_guest(void) {}
