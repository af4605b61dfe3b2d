// HTTP for tools:
//
//   tollgate_http_response answer = tollgate_http_send(&(tollgate_http_request){
//       .url = "https://api.example.com/v1/items", .timeout_ms = 5000});
//   if (answer.error) return tollgate_fail(call, answer.error, answer.message);
//
// The host sends a request only if an operator granted it, and adds the secrets that
// belong to the server. Redirects are not followed.
#ifndef TOLLGATE_HTTP_H
#define TOLLGATE_HTTP_H

#include "tollgate.h"

// A header; in a response, its name is in lower case.
typedef struct {
  const char *name, *value;
} tollgate_http_header;

typedef struct {
  // NULL for GET.
  const char *method;
  const char *url;
  const tollgate_http_header *headers;
  size_t header_count;
  const char *body;
  size_t body_len;
  // The time until the whole body has arrived; 0 for what is left of the call's time.
  uint32_t timeout_ms;
  // The part of the body that is read; 0 for all of it, up to the host's limit.
  uint32_t max_body_bytes;
} tollgate_http_request;

typedef struct {
  // Why there is no response, NULL if there is one. The code is the same in every
  // language: denied, bad_request, unreachable, timed_out, too_large or bad_response.
  const char *error;
  // A sentence for the model; NULL if there is a response.
  const char *message;
  // Any status is a response.
  uint16_t status;
  const tollgate_http_header *headers;
  size_t header_count;
  json_text body;
  // Whether the body is longer than max_body_bytes.
  bool truncated;
} tollgate_http_response;

tollgate_http_response tollgate_http_send(const tollgate_http_request *request);

// Sends all these requests at once; the responses are in their order.
void tollgate_http_send_all(const tollgate_http_request *requests, size_t count, tollgate_http_response *responses);

// The first value of a response's header; NULL if there is none.
const char *tollgate_http_header_of(const tollgate_http_response *response, const char *name);

// Turns a response without success into one with an error, so that there is one thing to
// check: redirected (300 to 399), not_found (404 and 410) or http_status.
void tollgate_http_expect_success(tollgate_http_response *response);

// Whether the same request may succeed later: the server was not reached or too slow, or
// answered with 429, 502, 503 or 504.
bool tollgate_http_is_transient(const tollgate_http_response *response);

// Appends a parameter to a URL that grows in a writer, encoded.
void tollgate_http_put_query(json_writer *url, const char *name, const char *value);

#endif
