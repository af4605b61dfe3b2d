// JSON for tools: reading what the host wrote, which is always valid, and writing
// answers. Memory is never given back: an instance serves one call.
#ifndef TOLLGATE_JSON_H
#define TOLLGATE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A value within a text; `len` is 0 where there is none.
typedef struct {
  const char *start;
  size_t len;
} json_value;

// Bytes in UTF-8 with a NUL behind them that `len` does not count.
typedef struct {
  char *start;
  size_t len;
} json_text;

// A member of an object; of no value, no value.
json_value json_member(json_value object, const char *name);
// The elements of a list, one after the other: start with `at` = 0.
bool json_next(json_value list, size_t *at, json_value *element);
// The members of an object, likewise.
bool json_next_member(json_value object, size_t *at, json_text *name, json_value *value);

bool json_is(json_value value, const char *literal);
// The text of a string, decoded; empty where the value is no string.
json_text json_string(json_value value);
// A number; the fallback where the value is none, or lies outside of int64_t.
int64_t json_integer(json_value value, int64_t fallback);
double json_number(json_value value, double fallback);

// JSON that grows as it is written.
typedef struct {
  char *start;
  size_t len, room;
} json_writer;

// Writes text as it stands: punctuation, literals, JSON that is there already.
void json_put(json_writer *writer, const char *text);
// No value is written as null.
void json_put_value(json_writer *writer, json_value value);
// Writes a string with its quotes and escapes.
void json_put_string(json_writer *writer, const char *text, size_t len);
void json_put_integer(json_writer *writer, int64_t value);
// Writes a number with as few digits as give it back; what JSON has no number for, NAN
// and the infinities, as null.
void json_put_number(json_writer *writer, double value);

#endif
