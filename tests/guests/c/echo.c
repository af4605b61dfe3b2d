// `echo` in C: the same tool as the Rust one, for benches of what a small guest
// costs. The host's own serialization of the arguments is {"text":"..."}, without
// blanks and with this one key, as the schema asks; what stands between is the
// answer, JSON already.
#include "guest.h"
#include <stdlib.h>
#include <string.h>

#define BEFORE (sizeof("{\"text\":") - 1)
#define AFTER (sizeof("}") - 1)

void exports_tollgate_tool_tool_describe(tollgate_tool_types_component_descriptor_t *returned) {
  tollgate_tool_types_tool_descriptor_t *tool = calloc(1, sizeof *tool);
  guest_string_dup(&tool->id, "echo-c");
  guest_string_dup(&tool->name, "echo_c");
  guest_string_dup(&tool->description, "Returns the text it is given.");
  guest_string_dup(&tool->parameters,
                   "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},"
                   "\"required\":[\"text\"],\"additionalProperties\":false}");
  tool->execution.idempotent = true;
  guest_string_dup(&returned->id, "echo-c");
  guest_string_dup(&returned->version, "0.1.0");
  returned->tools.ptr = tool;
  returned->tools.len = 1;
  returned->state.ptr = NULL;
  returned->state.len = 0;
}

bool exports_tollgate_tool_tool_validate_args(guest_string_t *tool_name, tollgate_tool_types_json_t *args,
                                              tollgate_tool_types_tool_error_t *error) {
  (void)error;
  guest_string_free(tool_name);
  guest_string_free(args);
  return true;
}

bool exports_tollgate_tool_tool_execute(tollgate_tool_types_json_t *args,
                                        tollgate_tool_types_tool_call_context_t *ctx,
                                        tollgate_tool_types_tool_output_t *returned,
                                        tollgate_tool_types_tool_error_t *error) {
  (void)error;
  memset(returned, 0, sizeof *returned);
  guest_string_dup_n(&returned->result.data, (const char *)args->ptr + BEFORE, args->len - BEFORE - AFTER);
  guest_string_free(args);
  tollgate_tool_types_tool_call_context_free(ctx);
  return true;
}
