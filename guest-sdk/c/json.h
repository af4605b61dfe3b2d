// JSON for tools: reading JSON from the host, which is always valid, and writing
// answers. Memory is never freed: an instance serves one call.
#ifndef TOLLGATE_JSON_H
#define TOLLGATE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A value within a text; `len` is 0 if there is none.
typedef struct {
  const char *start;
  size_t len;
} json_value;

// UTF-8 followed by a NUL that `len` does not count.
typedef struct {
  char *start;
  size_t len;
} json_text;

// A member of an object; no value if the object is none.
json_value json_member(json_value object, const char *name);
// The elements of a list, one by one: start with `at` = 0.
bool json_next(json_value list, size_t *at, json_value *element);
// The members of an object, one by one.
bool json_next_member(json_value object, size_t *at, json_text *name, json_value *value);

bool json_is(json_value value, const char *literal);
// The decoded text of a string; empty if the value is not a string.
json_text json_string(json_value value);
// A number; the fallback if the value is not a number or outside int64_t.
int64_t json_integer(json_value value, int64_t fallback);
double json_number(json_value value, double fallback);

// JSON that grows as it is written.
typedef struct {
  char *start;
  size_t len, room;
} json_writer;

// Appends text unchanged: punctuation, literals, existing JSON.
void json_put(json_writer *writer, const char *text);
// Appends a value; no value becomes null.
void json_put_value(json_writer *writer, json_value value);
// Appends a string with its quotes and escapes.
void json_put_string(json_writer *writer, const char *text, size_t len);
void json_put_integer(json_writer *writer, int64_t value);
// Appends a number with the fewest digits that preserve it; NAN and the infinities
// become null.
void json_put_number(json_writer *writer, double value);

#endif
