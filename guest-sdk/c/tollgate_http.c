// The parts of tollgate_http.h that need no host; see tollgate_http_host.c.
#include "tollgate_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tollgate_http_response tollgate_http_send(const tollgate_http_request *request) {
  tollgate_http_response response;
  tollgate_http_send_all(request, 1, &response);
  return response;
}

const char *tollgate_http_header_of(const tollgate_http_response *response, const char *name) {
  for (size_t at = 0; at < response->header_count; at++) {
    if (strcmp(response->headers[at].name, name) == 0) return response->headers[at].value;
  }
  return NULL;
}

static const char *sentence(const char *form, const char *word) {
  size_t room = strlen(form) + strlen(word);
  char *text = malloc(room);
  snprintf(text, room, form, word);
  return text;
}

void tollgate_http_expect_success(tollgate_http_response *response) {
  if (response->error || (response->status >= 200 && response->status < 300)) return;
  if (response->status >= 300 && response->status < 400) {
    const char *to = tollgate_http_header_of(response, "location");
    response->error = "redirected";
    response->message = sentence("The server redirects to %s.", to ? to : "another place");
  } else if (response->status == 404 || response->status == 410) {
    response->error = "not_found";
    response->message = "The server has nothing at this address.";
  } else {
    char status[8];
    snprintf(status, sizeof status, "%u", (unsigned)response->status);
    response->error = "http_status";
    response->message = sentence("The server answered with the status %s.", status);
  }
}

bool tollgate_http_is_transient(const tollgate_http_response *response) {
  if (!response->error) return false;
  bool is_late = strcmp(response->error, "timed_out") == 0 || strcmp(response->error, "unreachable") == 0;
  return is_late || response->status == 429 || (response->status >= 502 && response->status <= 504);
}

static void put_encoded(json_writer *url, const char *text) {
  for (; *text; text++) {
    unsigned char byte = (unsigned char)*text;
    bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                    (byte < 0x80 && strchr("-_.~", byte));
    char encoded[4];
    snprintf(encoded, sizeof encoded, is_plain ? "%c" : "%%%02X", byte);
    json_put(url, encoded);
  }
}

void tollgate_http_put_query(json_writer *url, const char *name, const char *value) {
  json_put(url, memchr(url->start, '?', url->len) ? "&" : "?");
  put_encoded(url, name);
  json_put(url, "=");
  put_encoded(url, value);
}
