// Connects tollgate_http.h to the generated bindings.
#include "tollgate_http.h"

#include "bindings/guest.h"

#include <stdlib.h>
#include <string.h>

static const char *const codes[] = {"denied",    "bad_request", "unreachable",
                                    "timed_out", "too_large",   "bad_response"};

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

static void lower(const tollgate_http_request *request, tollgate_tool_http_client_request_t *to) {
  to->method = text_of(request->method ? request->method : "GET");
  to->url = text_of(request->url);
  to->headers.len = request->header_count;
  to->headers.ptr = calloc(request->header_count + 1, sizeof *to->headers.ptr);
  for (size_t at = 0; at < request->header_count; at++) {
    to->headers.ptr[at].name = text_of(request->headers[at].name);
    to->headers.ptr[at].value = text_of(request->headers[at].value);
  }
  to->body.len = request->body_len;
  to->body.ptr = (uint8_t *)request->body;
  to->timeout_ms.is_some = request->timeout_ms != 0;
  to->timeout_ms.val = request->timeout_ms;
  to->max_body_bytes.is_some = request->max_body_bytes != 0;
  to->max_body_bytes.val = request->max_body_bytes;
}

static tollgate_http_response lift(const tollgate_tool_http_client_response_t *from) {
  tollgate_http_header *headers = calloc(from->headers.len + 1, sizeof *headers);
  for (size_t at = 0; at < from->headers.len; at++) {
    headers[at].name = c_text(from->headers.ptr[at].name);
    headers[at].value = c_text(from->headers.ptr[at].value);
  }
  char *body = malloc(from->body.len + 1);
  memcpy(body, from->body.ptr, from->body.len);
  body[from->body.len] = 0;
  return (tollgate_http_response){.status = from->status,
                                  .headers = headers,
                                  .header_count = from->headers.len,
                                  .body = {body, from->body.len},
                                  .truncated = from->truncated};
}

void tollgate_http_send_all(const tollgate_http_request *requests, size_t count, tollgate_http_response *responses) {
  tollgate_tool_http_client_list_request_t sent = {calloc(count + 1, sizeof *sent.ptr), count};
  tollgate_tool_http_client_list_result_response_error_t answers;
  for (size_t at = 0; at < count; at++) lower(&requests[at], &sent.ptr[at]);
  tollgate_tool_http_client_send(&sent, &answers);
  for (size_t at = 0; at < count; at++) {
    tollgate_tool_http_client_result_response_error_t *answer = &answers.ptr[at];
    if (answer->is_err) {
      responses[at] = (tollgate_http_response){.error = codes[answer->val.err.kind],
                                               .message = c_text(answer->val.err.message)};
    } else {
      responses[at] = lift(&answer->val.ok);
    }
  }
}
