// text-stats in C: what a text is made of.
#include "tollgate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char *start;
  size_t len;
  int64_t count;
} word;

typedef struct {
  word *words;
  size_t count;
  char *letters; // in which the words lie
} word_list;

static bool is_blank(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

// The text's words in lower case, once for each occurrence.
static word_list split(json_text text) {
  char *lower = malloc(text.len + 1);
  word_list list = {malloc((text.len / 2 + 1) * sizeof(word)), 0, lower};
  for (size_t at = 0; at < text.len; at++) {
    char byte = text.start[at];
    lower[at] = byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte;
  }
  for (size_t at = 0; at < text.len;) {
    size_t from = at;
    while (at < text.len && !is_blank(lower[at])) at++;
    if (at > from) list.words[list.count++] = (word){lower + from, at - from, 1};
    while (at < text.len && is_blank(lower[at])) at++;
  }
  return list;
}

static int by_bytes(const void *left, const void *right) {
  const word *a = left, *b = right;
  int order = memcmp(a->start, b->start, a->len < b->len ? a->len : b->len);
  return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int by_count(const void *left, const void *right) {
  const word *a = left, *b = right;
  int order = (a->count < b->count) - (a->count > b->count);
  return order ? order : by_bytes(left, right);
}

// Each word once, with the number of its occurrences, the most frequent first.
static word_list count(word_list all) {
  qsort(all.words, all.count, sizeof(word), by_bytes);
  word_list each = {all.words, 0, all.letters};
  for (size_t at = 0; at < all.count; at++) {
    if (each.count > 0 && by_bytes(&each.words[each.count - 1], &all.words[at]) == 0) {
      each.words[each.count - 1].count++;
    } else {
      each.words[each.count++] = all.words[at];
    }
  }
  qsort(each.words, each.count, sizeof(word), by_count);
  return each;
}

static int64_t count_characters(json_text text) {
  int64_t characters = 0;
  for (size_t at = 0; at < text.len; at++) characters += (text.start[at] & 0xc0) != 0x80;
  return characters;
}

static int64_t count_lines(json_text text) {
  int64_t lines = text.start[text.len - 1] != '\n';
  for (size_t at = 0; at < text.len; at++) lines += text.start[at] == '\n';
  return lines;
}

// Tells the operator whose call it is.
static void tell_surroundings(const tollgate_call *call) {
  const char *form = "call %s, attempt %u: agent %s, run %s, thread %s";
  unsigned attempt = call->attempt;
  // A thread's id may be of any length: cut by bytes, it would end within a character.
  int bytes = snprintf(NULL, 0, form, call->call_id, attempt, call->agent_id, call->run_id, call->thread_id);
  char *line = malloc((size_t)bytes + 1);
  snprintf(line, (size_t)bytes + 1, form, call->call_id, attempt, call->agent_id, call->run_id, call->thread_id);
  tollgate_log(TOLLGATE_DEBUG, line);
}

static void ask(tollgate_call *call, size_t bytes) {
  char message[64], parameters[64];
  snprintf(message, sizeof message, "Measure %zu bytes?", bytes);
  snprintf(parameters, sizeof parameters, "{\"bytes\":%zu}", bytes);
  tollgate_suspend(call, (tollgate_ticket){.action = "measure",
                                           .message = message,
                                           .parameters = parameters,
                                           .response_schema = "{\"type\":\"boolean\"}"});
}

static void put_member(json_writer *data, const char *name, int64_t value) {
  json_put(data, name);
  json_put_integer(data, value);
}

static void put_top(json_writer *data, word_list each, int64_t top) {
  json_put(data, ",\"top\":[");
  for (size_t at = 0; at < each.count && at < (size_t)top; at++) {
    word *listed = &each.words[at];
    json_put(data, at ? ",{\"word\":" : "{\"word\":");
    json_put_string(data, listed->start, listed->len);
    put_member(data, ",\"count\":", listed->count);
    json_put(data, "}");
    char *line = malloc(listed->len + 32);
    snprintf(line, listed->len + 32, "%lld %.*s\n", (long long)listed->count, (int)listed->len, listed->start);
    tollgate_stream_output(line);
  }
  json_put(data, "]");
}

static void measure(tollgate_call *call, json_text text, int64_t rounds, int64_t top) {
  word_list all = {0}, each = {0};
  tell_surroundings(call);
  tollgate_progress(TOLLGATE_RUNNING, 0, "measuring");
  for (int64_t round = 0; round < rounds; round++) {
    if (tollgate_is_cancelled()) {
      tollgate_fail(call, "cancelled", "The run was cancelled.");
      return;
    }
    free(all.words);
    free(all.letters);
    all = split(text);
    each = count(all);
  }
  char words[64];
  snprintf(words, sizeof words, "%zu", all.count);
  int64_t seen = json_integer(tollgate_read(call, "words-seen"), 0);
  tollgate_update(call, "words-seen", words);
  json_writer data = {0};
  put_member(&data, "{\"bytes\":", (int64_t)text.len);
  put_member(&data, ",\"characters\":", count_characters(text));
  put_member(&data, ",\"words\":", (int64_t)all.count);
  put_member(&data, ",\"lines\":", count_lines(text));
  put_top(&data, each, top);
  put_member(&data, ",\"seen\":", seen);
  json_put(&data, "}");
  snprintf(words, sizeof words, "measured %zu words", all.count);
  tollgate_progress(TOLLGATE_DONE, 1, words);
  tollgate_succeed(call, &data);
}

static void text_stats(tollgate_call *call) {
  json_text text = json_string(json_member(call->args, "text"));
  bool confirm = json_is(json_member(call->args, "confirm"), "true");
  if (text.len == 0) {
    tollgate_fail(call, "empty_text", "There is no text to measure.");
  } else if (memchr(text.start, 0, text.len)) {
    tollgate_refuse(call, TOLLGATE_EXECUTION_FAILED, "The text holds a NUL character.");
  } else if (confirm && call->decision.len == 0) {
    ask(call, text.len);
  } else if (json_is(call->decision, "false")) {
    tollgate_fail(call, "declined", "The person said no.");
  } else {
    measure(call, text, json_integer(json_member(call->args, "rounds"), 1),
            json_integer(json_member(call->args, "top"), 3));
  }
}

static const tollgate_tool tools[] = {{
    .name = "text_stats_c",
    .id = "text-stats-c",
    .description = "Counts the bytes, characters, words and lines of a text, and lists its most frequent words.",
    .category = "text",
    .idempotent = true,
    .execute = text_stats,
    .parameters =
        "{\"type\":\"object\",\"required\":[\"text\"],\"additionalProperties\":false,\"properties\":{"
        "\"text\":{\"type\":\"string\",\"description\":\"The text.\"},"
        "\"top\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":20,\"default\":3,"
        "\"description\":\"How many of the most frequent words to list.\"},"
        "\"rounds\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000000,\"default\":1,"
        "\"description\":\"How often to measure it.\"},"
        "\"confirm\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Whether to ask a person first.\"}}}",
}};

static const tollgate_key keys[] = {
    {.name = "words-seen", .initial = "0", .reducer = TOLLGATE_ADD, .thread = true, .persistent = true},
};

const tollgate_component_descriptor tollgate_component = {
    .id = "text-stats-c", .version = "0.1.0", .tools = tools, .tool_count = 1, .keys = keys, .key_count = 1,
};
