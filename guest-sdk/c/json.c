#include "json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_blanks(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

// Returns the end of a string whose quote is at `at`.
static const char *end_of_string(const char *at, const char *end) {
  for (at++; at < end && *at != '"'; at++) {
    if (*at == '\\') at++;
  }
  return at < end ? at + 1 : end;
}

static const char *end_of_value(const char *at, const char *end) {
  size_t depth = 0;
  while (at < end) {
    if (*at == '"') {
      at = end_of_string(at, end);
    } else if (*at == '{' || *at == '[') {
      depth++, at++;
    } else if (*at == '}' || *at == ']') {
      if (depth == 0) return at;
      depth--, at++;
    } else if (depth == 0 && (*at == ',' || *at == ':')) {
      return at;
    } else {
      at++;
      continue;
    }
    if (depth == 0) return at;
  }
  return end;
}

static json_value value_at(const char *at, const char *end) {
  // Invalid JSON may have ended before.
  if (at > end) at = end;
  at = skip_blanks(at, end);
  const char *stop = end_of_value(at, end);
  while (stop > at && strchr(" \t\n\r", stop[-1])) stop--;
  return (json_value){at, (size_t)(stop - at)};
}

json_value json_member(json_value object, const char *name) {
  size_t at = 0, len = strlen(name);
  json_text key;
  json_value value;
  while (json_next_member(object, &at, &key, &value)) {
    if (key.len == len && memcmp(key.start, name, len) == 0) return value;
  }
  return (json_value){0};
}

bool json_next_member(json_value object, size_t *at, json_text *name, json_value *value) {
  const char *end = object.start + object.len;
  if (object.len < 2 || *object.start != '{') return false;
  if (*at == 0) *at = 1;
  const char *from = skip_blanks(object.start + *at, end);
  if (from >= end || *from != '"') return false;
  json_value key = value_at(from, end);
  *name = json_string(key);
  *value = value_at(skip_blanks(key.start + key.len, end) + 1, end);
  from = skip_blanks(value->start + value->len, end);
  *at = (size_t)(from - object.start) + (from < end && *from == ',');
  return true;
}

bool json_next(json_value list, size_t *at, json_value *element) {
  const char *end = list.start + list.len;
  if (list.len < 2 || *list.start != '[') return false;
  if (*at == 0) *at = 1;
  const char *from = skip_blanks(list.start + *at, end);
  if (from >= end || *from == ']') return false;
  *element = value_at(from, end);
  from = skip_blanks(element->start + element->len, end);
  *at = (size_t)(from - list.start) + (from < end && *from == ',');
  return true;
}

bool json_is(json_value value, const char *literal) {
  return value.len == strlen(literal) && memcmp(value.start, literal, value.len) == 0;
}

static uint32_t hex4(const char *at) {
  char digits[5] = {at[0], at[1], at[2], at[3], 0};
  return (uint32_t)strtoul(digits, NULL, 16);
}

static char *put_utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  } else {
    *to++ = (char)(0xf0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 0x3f));
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    *to++ = (char)(0x80 | (code & 0x3f));
  }
  return to;
}

// Writes the character of the escape after a backslash at `at`; returns the escape's
// end.
static const char *unescape(const char *at, char **to) {
  static const char *const names = "bfnrt", *const codes = "\b\f\n\r\t";
  const char *name = strchr(names, *at);
  if (*at != 'u') {
    *(*to)++ = name ? codes[name - names] : *at;
    return at + 1;
  }
  uint32_t code = hex4(at + 1);
  at += 5;
  if (code >= 0xd800 && code < 0xdc00) {
    code = 0x10000 + ((code - 0xd800) << 10) + (hex4(at + 2) - 0xdc00);
    at += 6;
  }
  *to = put_utf8(*to, code);
  return at;
}

json_text json_string(json_value value) {
  char *decoded = malloc(value.len + 1), *to = decoded;
  if (value.len >= 2 && *value.start == '"') {
    const char *end = value.start + value.len - 1;
    for (const char *at = value.start + 1; at < end;) {
      if (*at == '\\') {
        at = unescape(at + 1, &to);
      } else {
        *to++ = *at++;
      }
    }
  }
  *to = 0;
  return (json_text){decoded, (size_t)(to - decoded)};
}

double json_number(json_value value, double fallback) {
  if (value.len == 0 || !strchr("-0123456789", *value.start)) return fallback;
  return strtod(value.start, NULL);
}

int64_t json_integer(json_value value, int64_t fallback) {
  if (value.len == 0 || !strchr("-0123456789", *value.start)) return fallback;
  errno = 0;
  char *stop;
  long long integer = strtoll(value.start, &stop, 10);
  if (stop != value.start + value.len) {
    double number = json_number(value, 0);
    return number >= -9007199254740992.0 && number <= 9007199254740992.0 ? (int64_t)number : fallback;
  }
  return errno == 0 ? integer : fallback;
}

static void put_bytes(json_writer *writer, const char *bytes, size_t len) {
  if (writer->room - writer->len < len + 1) {
    writer->room = (writer->room + len + 1) * 2;
    writer->start = realloc(writer->start, writer->room);
    if (!writer->start) abort();
  }
  memcpy(writer->start + writer->len, bytes, len);
  writer->len += len;
  writer->start[writer->len] = 0;
}

void json_put(json_writer *writer, const char *text) { put_bytes(writer, text, strlen(text)); }

void json_put_value(json_writer *writer, json_value value) {
  if (value.len == 0) value = (json_value){"null", 4};
  put_bytes(writer, value.start, value.len);
}

void json_put_string(json_writer *writer, const char *text, size_t len) {
  json_put(writer, "\"");
  for (size_t at = 0; at < len; at++) {
    unsigned char byte = (unsigned char)text[at];
    if (byte == '"' || byte == '\\') {
      put_bytes(writer, (char[]){'\\', (char)byte}, 2);
    } else if (byte < 0x20) {
      char escape[7];
      put_bytes(writer, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", byte));
    } else {
      put_bytes(writer, &text[at], 1);
    }
  }
  json_put(writer, "\"");
}

void json_put_integer(json_writer *writer, int64_t value) {
  char digits[24];
  put_bytes(writer, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value));
}

void json_put_number(json_writer *writer, double value) {
  char digits[32];
  if (!(value - value == 0)) {
    json_put(writer, "null");
    return;
  }
  for (int precision = 15; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (strtod(digits, NULL) == value) break;
  }
  json_put(writer, digits);
}
