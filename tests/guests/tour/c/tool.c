// The tour in C; see the README beside the languages.
#include "tollgate.h"
#include "tollgate_child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  json_text name, zip, country;
  bool has_zip;
} place;

typedef struct {
  json_text what, how, text;
  bool has_how, flag, has_place;
  int64_t count, size;
  double ratio;
  json_value words, scores; // of length 0 where absent
  place place;
} arguments;

static json_text text_or(json_value object, const char *name, const char *fallback) {
  json_value value = json_member(object, name);
  if (value.len > 0) return json_string(value);
  return (json_text){(char *)fallback, strlen(fallback)};
}

static arguments read_arguments(json_value args) {
  json_value where = json_member(args, "place");
  return (arguments){
      .what = text_or(args, "what", ""),
      .how = text_or(args, "how", ""),
      .has_how = json_member(args, "how").len > 0,
      .text = text_or(args, "text", "plain"),
      .count = json_integer(json_member(args, "count"), 3),
      .ratio = json_number(json_member(args, "ratio"), 0.5),
      .flag = !json_is(json_member(args, "flag"), "false"),
      .words = json_member(args, "words"),
      .size = json_integer(json_member(args, "size"), 2),
      .has_place = where.len > 0,
      .place = {.name = text_or(where, "name", ""),
                .zip = text_or(where, "zip", ""),
                .has_zip = json_member(where, "zip").len > 0,
                .country = text_or(where, "country", "CH")},
      .scores = json_member(args, "scores"),
  };
}

static bool is(json_text text, const char *word) { return strcmp(text.start, word) == 0; }

static void put_text(json_writer *data, json_text text) { json_put_string(data, text.start, text.len); }

static void put_word(json_writer *data, const char *word) { json_put_string(data, word, strlen(word)); }

static void put_text_or_null(json_writer *data, const char *text) {
  if (text) {
    put_word(data, text);
  } else {
    json_put(data, "null");
  }
}

static void put_bool(json_writer *data, bool value) { json_put(data, value ? "true" : "false"); }

static void put_words(json_writer *data, json_value words) {
  json_value word;
  json_put(data, "[");
  for (size_t at = 0, count = 0; json_next(words, &at, &word); count++) {
    if (count > 0) json_put(data, ",");
    put_text(data, json_string(word));
  }
  json_put(data, "]");
}

static void put_scores(json_writer *data, json_value scores) {
  json_text name;
  json_value score;
  json_put(data, "{");
  for (size_t at = 0, count = 0; json_next_member(scores, &at, &name, &score); count++) {
    if (count > 0) json_put(data, ",");
    put_text(data, name);
    json_put(data, ":");
    json_put_integer(data, json_integer(score, 0));
  }
  json_put(data, "}");
}

static void put_place(json_writer *data, place where) {
  json_put(data, "{\"name\":");
  put_text(data, where.name);
  json_put(data, ",\"zip\":");
  put_text_or_null(data, where.has_zip ? where.zip.start : NULL);
  json_put(data, ",\"country\":");
  put_text(data, where.country);
  json_put(data, "}");
}

static void echo(tollgate_call *call, arguments args) {
  json_writer data = {0};
  json_put(&data, "{\"what\":");
  put_text(&data, args.what);
  json_put(&data, ",\"how\":");
  put_text_or_null(&data, args.has_how ? args.how.start : NULL);
  json_put(&data, ",\"text\":");
  put_text(&data, args.text);
  json_put(&data, ",\"count\":");
  json_put_integer(&data, args.count);
  json_put(&data, ",\"ratio\":");
  json_put_number(&data, args.ratio);
  json_put(&data, ",\"flag\":");
  put_bool(&data, args.flag);
  json_put(&data, ",\"words\":");
  put_words(&data, args.words);
  json_put(&data, ",\"size\":");
  json_put_integer(&data, args.size);
  json_put(&data, ",\"place\":");
  if (args.has_place) {
    put_place(&data, args.place);
  } else {
    json_put(&data, "null");
  }
  json_put(&data, ",\"scores\":");
  put_scores(&data, args.scores);
  json_put(&data, "}");
  tollgate_succeed(call, &data);
}

static void answer(tollgate_call *call, const char *word) {
  json_writer data = {0};
  put_word(&data, word);
  tollgate_succeed(call, &data);
}

static void tell_caller(tollgate_call *call) {
  json_writer data = {0};
  json_put(&data, "{\"tool\":");
  put_word(&data, call->tool_name);
  json_put(&data, ",\"revision\":");
  json_put_integer(&data, (int64_t)call->revision);
  json_put(&data, ",\"timely\":");
  put_bool(&data, call->deadline_ms >= 1 && call->deadline_ms <= 4000);
  json_put(&data, ",\"agent\":{\"id\":");
  put_word(&data, call->agent_id);
  json_put(&data, ",\"description\":");
  put_text_or_null(&data, call->agent_description);
  json_put(&data, ",\"delegates\":[");
  for (size_t at = 0; at < call->delegate_count; at++) {
    if (at > 0) json_put(&data, ",");
    put_word(&data, call->delegates[at]);
  }
  json_put(&data, "]},\"parent\":{\"run\":");
  put_text_or_null(&data, call->parent_run_id);
  json_put(&data, ",\"thread\":");
  put_text_or_null(&data, call->parent_thread_id);
  json_put(&data, ",\"call\":");
  put_text_or_null(&data, call->parent_call_id);
  json_put(&data, "}}");
  tollgate_succeed(call, &data);
}

static void report(tollgate_call *call) {
  tollgate_activity("tour", "first stop");
  tollgate_activity_delta("tour", "[{\"op\":\"add\",\"path\":\"/stops\",\"value\":1}]");
  tollgate_progress(TOLLGATE_PENDING, TOLLGATE_UNKNOWN, NULL);
  tollgate_progress(TOLLGATE_RUNNING, 0.25, "under way");
  tollgate_progress(TOLLGATE_RUNNING, 0.5, NULL);
  tollgate_progress(TOLLGATE_FAILED, TOLLGATE_UNKNOWN, "broken");
  tollgate_progress(TOLLGATE_CANCELLED, 0.75, "stopped");
  tollgate_progress(TOLLGATE_DONE, 1, "there");
  tollgate_stream_output("one ");
  tollgate_stream_output("two\n");
  tollgate_log(TOLLGATE_TRACE, "trace");
  tollgate_log(TOLLGATE_DEBUG, "debug");
  tollgate_log(TOLLGATE_INFO, "info");
  tollgate_log(TOLLGATE_WARN, "warn");
  tollgate_log(TOLLGATE_ERROR, "error");
  answer(call, "reported");
}

static void reduce(tollgate_call *call, arguments args) {
  json_writer text = {0}, count = {0}, words = {0}, patch = {0};
  put_text(&text, args.text);
  json_put_integer(&count, args.count);
  put_words(&words, args.words);
  json_put(&patch, "{");
  json_put(&patch, text.start);
  json_put(&patch, ":");
  json_put(&patch, count.start);
  json_put(&patch, ",\"gone\":null}");
  tollgate_update(call, "replaced", text.start);
  tollgate_update(call, "merged", patch.start);
  tollgate_update(call, "appended", text.start);
  tollgate_update(call, "added", count.start);
  tollgate_update(call, "united", words.start);
  tollgate_update(call, "greatest", count.start);
  tollgate_update(call, "passing", text.start);
  answer(call, "reduced");
}

static void put_large(json_writer *data, int64_t kilobytes) {
  char thousand[1025];
  memset(thousand, 'x', 1024);
  thousand[1024] = 0;
  json_put(data, "\"");
  for (int64_t at = 0; at < kilobytes; at++) json_put(data, thousand);
  json_put(data, "\"");
}

static void read_state(tollgate_call *call) {
  static const char *const names[] = {"replaced", "merged", "appended", "added", "united", "greatest", "passing"};
  json_writer data = {0};
  for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
    json_put(&data, at > 0 ? "," : "{");
    put_word(&data, names[at]);
    json_put(&data, ":");
    json_put_value(&data, tollgate_read(call, names[at]));
  }
  json_put(&data, ",\"large\":");
  json_put_integer(&data, (int64_t)json_string(tollgate_read(call, "large")).len);
  json_put(&data, ",\"label\":");
  json_value label = tollgate_read(call, "shelf.label");
  put_text_or_null(&data, label.len > 0 ? json_string(label).start : NULL);
  json_put(&data, "}");
  tollgate_succeed(call, &data);
}

static void act(tollgate_call *call, arguments args) {
  if (is(args.how, "add-context")) {
    tollgate_add_context(call, args.text.start);
  } else if (is(args.how, "transfer")) {
    tollgate_transfer_to(call, args.text.start);
  } else if (is(args.how, "escalate")) {
    tollgate_escalate(call);
  } else {
    answer(call, "unknown");
    return;
  }
  answer(call, "acted");
}

static const char *sentence(const char *form, json_text text) {
  size_t room = strlen(form) + text.len + 1;
  char *sentence = malloc(room);
  snprintf(sentence, room, form, text.start);
  return sentence;
}

static void ask(tollgate_call *call, arguments args) {
  static const char *const modes[] = {"replay-tool-call", "use-decision-as-tool-result", "pass-decision-to-tool"};
  int mode = 0;
  while (mode < 3 && !is(args.how, modes[mode])) mode++;
  if (is(args.how, "plain")) {
    tollgate_ask(call, sentence("Go on with %s?", args.text));
  } else if (mode == 3) {
    answer(call, "unknown");
  } else {
    json_writer parameters = {0};
    json_put(&parameters, "{\"words\":");
    put_words(&parameters, args.words);
    json_put(&parameters, ",\"count\":");
    json_put_integer(&parameters, args.count);
    json_put(&parameters, "}");
    tollgate_suspend(call, (tollgate_ticket){.action = "choose",
                                             .message = sentence("Which one, %s?", args.text),
                                             .parameters = parameters.start,
                                             .response_schema = "{\"type\":[\"object\",\"string\",\"boolean\"]}",
                                             .resume_mode = mode});
  }
}

static void go_on(tollgate_call *call, arguments args) {
  const tollgate_resumption *resume = call->resume;
  json_writer data = {0};
  json_put(&data, "{\"text\":");
  put_text(&data, args.text);
  json_put(&data, ",\"action\":");
  put_word(&data, resume->action);
  json_put(&data, ",\"message\":");
  put_word(&data, resume->message);
  json_put(&data, ",\"value\":");
  json_put_value(&data, resume->value);
  json_put(&data, ",\"reason\":");
  put_text_or_null(&data, resume->reason);
  json_put(&data, ",\"decision\":");
  put_word(&data, resume->decision_id);
  json_put(&data, ",\"suspension\":");
  put_bool(&data, resume->suspension_id[0] != 0);
  json_put(&data, ",\"decided\":");
  put_bool(&data, resume->decided_at_ms > 0);
  json_put(&data, "}");
  tollgate_succeed(call, &data);
}

static void fail(tollgate_call *call, arguments args) {
  static const char *const kinds[] = {"invalid-arguments", "execution-failed", "denied", "not-found", "internal"};
  for (int kind = 0; kind < 5; kind++) {
    if (is(args.how, kinds[kind])) {
      tollgate_refuse(call, kind, args.text.start);
      return;
    }
  }
  answer(call, "unknown");
}

static void err(tollgate_call *call, arguments args) {
  if (is(args.how, "coded")) {
    tollgate_fail(call, "full", args.text.start);
  } else if (is(args.how, "plain")) {
    tollgate_fail(call, NULL, args.text.start);
  } else {
    answer(call, "unknown");
  }
}

static void tell_message(tollgate_call *call, arguments args) {
  json_writer data = {0};
  json_put(&data, "{\"count\":");
  json_put_integer(&data, args.count);
  json_put(&data, "}");
  tollgate_succeed_with_message(call, &data, args.text.start);
}

static void cancel(tollgate_call *call) {
  tollgate_progress(TOLLGATE_RUNNING, 0, "waiting");
  while (!tollgate_is_cancelled()) continue;
  tollgate_log(TOLLGATE_INFO, "saw the cancellation");
  tollgate_fail(call, "cancelled", "The run was cancelled.");
}

static void through_file(tollgate_call *call, arguments args) {
  const char *path = "/files/c.txt";
  FILE *file = fopen(path, "w+");
  if (!file) {
    tollgate_refuse(call, TOLLGATE_INTERNAL, "The file cannot be opened.");
    return;
  }
  char *read = malloc(args.text.len);
  fwrite(args.text.start, 1, args.text.len, file);
  rewind(file);
  json_writer data = {0};
  json_put_string(&data, read, fread(read, 1, args.text.len, file));
  fclose(file);
  remove(path);
  tollgate_succeed(call, &data);
}

static void run_child(tollgate_call *call, arguments args) {
  tollgate_child_message message = {.text = args.has_how ? args.how.start : ""};
  tollgate_child_outcome child = tollgate_run_child(
      &(tollgate_child_run){.agent = args.text.start, .messages = &message, .message_count = 1});
  if (!tollgate_child_completed(call, &child)) return;
  json_writer data = {0};
  json_put(&data, "{\"response\":");
  put_text_or_null(&data, child.response);
  json_put(&data, ",\"streamed\":");
  put_text_or_null(&data, child.streamed);
  json_put(&data, ",\"steps\":");
  json_put_integer(&data, child.steps);
  json_put(&data, "}");
  tollgate_succeed(call, &data);
}

static void tour(tollgate_call *call) {
  arguments args = read_arguments(call->args);
  json_writer data = {0};
  if (is(args.what, "echo")) {
    echo(call, args);
  } else if (is(args.what, "context")) {
    tell_caller(call);
  } else if (is(args.what, "report")) {
    report(call);
  } else if (is(args.what, "reduce")) {
    reduce(call, args);
  } else if (is(args.what, "fill")) {
    put_large(&data, args.count);
    tollgate_update(call, "large", data.start);
    answer(call, "filled");
  } else if (is(args.what, "read")) {
    read_state(call);
  } else if (is(args.what, "trespass")) {
    put_text(&data, args.text);
    tollgate_update(call, "shelf.label", data.start);
    answer(call, "trespassed");
  } else if (is(args.what, "act")) {
    act(call, args);
  } else if (is(args.what, "suspend")) {
    call->resume ? go_on(call, args) : ask(call, args);
  } else if (is(args.what, "fail")) {
    fail(call, args);
  } else if (is(args.what, "error")) {
    err(call, args);
  } else if (is(args.what, "message")) {
    tell_message(call, args);
  } else if (is(args.what, "big")) {
    put_large(&data, args.count);
    tollgate_succeed(call, &data);
  } else if (is(args.what, "reread")) {
    reduce(call, args);
    read_state(call);
  } else if (is(args.what, "setting")) {
    put_text_or_null(&data, tollgate_setting(args.text.start));
    tollgate_succeed(call, &data);
  } else if (is(args.what, "child")) {
    run_child(call, args);
  } else if (is(args.what, "attach")) {
    tollgate_attach("image/png", "\x89PNG", 4);
    tollgate_attach_file("tour:///notes.txt", "text/plain", args.text.start, args.text.len);
    tollgate_attach_link("https://example.org/tour", args.text.start, "A tour.");
    json_put_string(&data, "attached", 8);
    tollgate_succeed(call, &data);
  } else if (is(args.what, "file")) {
    through_file(call, args);
  } else {
    cancel(call);
  }
}

static const char *is_allowed(json_value args) {
  return is(read_arguments(args).text, "forbidden") ? "The text may not be forbidden." : NULL;
}

#define MEMBER(name, schema, description) "\"" name "\":{" schema ",\"description\":\"" description "\"}"
#define A_STRING "\"type\":\"string\""
#define AN_INTEGER "\"type\":\"integer\""
#define STRINGS "\"type\":\"array\",\"items\":{" A_STRING "}"
#define INTEGERS "\"type\":\"object\",\"additionalProperties\":{" AN_INTEGER "}"
#define A_PLACE                                                                 \
  "\"type\":\"object\",\"required\":[\"name\"],\"additionalProperties\":false," \
  "\"properties\":{" MEMBER("name", A_STRING, "The name of the place.") ","     \
  MEMBER("zip", A_STRING, "Its code.") ","                                      \
  MEMBER("country", A_STRING ",\"default\":\"CH\"", "The country of the place.") "}"

static const tollgate_tool tools[] = {{
    .name = "tour_c",
    .id = "tour-c",
    .description = "Exercises what the contract offers.",
    .category = "test",
    .timeout_ms = 4000,
    .max_retries = &(const uint32_t){1},
    .idempotent = true,
    .execute = tour,
    .validate = is_allowed,
    .parameters = "{\"type\":\"object\",\"required\":[\"what\"],\"additionalProperties\":false,\"properties\":{"
        MEMBER("what", A_STRING ",\"enum\":[\"echo\",\"context\",\"report\",\"reduce\",\"fill\",\"read\","
                                "\"trespass\",\"act\",\"suspend\",\"fail\",\"error\",\"message\",\"big\",\"cancel\",\"reread\",\"setting\",\"child\",\"attach\",\"file\"]",
               "The action to take.") ","
        MEMBER("how", A_STRING, "Which way to do it.") ","
        MEMBER("text", A_STRING ",\"default\":\"plain\"", "A text.") ","
        MEMBER("count", AN_INTEGER ",\"minimum\":0,\"maximum\":1000,\"default\":3", "A number of things.") ","
        MEMBER("ratio", "\"type\":\"number\",\"default\":0.5", "A part of a whole.") ","
        MEMBER("flag", "\"type\":\"boolean\",\"default\":true", "Yes or no.") ","
        MEMBER("words", STRINGS ",\"default\":[]", "Some words.") ","
        MEMBER("size", AN_INTEGER ",\"enum\":[1,2,4],\"default\":2", "A size.") ","
        MEMBER("place", A_PLACE, "A place.") ","
        MEMBER("scores", INTEGERS ",\"default\":{}", "Numbers by name.") "}}",
}};

#define LASTING(key, begins, how, fits) \
  {.name = key, .initial = begins, .reducer = how, .thread = true, .persistent = true, .schema = "{" fits "}"}

static const tollgate_key keys[] = {
    LASTING("replaced", "\"nothing\"", TOLLGATE_REPLACE, A_STRING),
    LASTING("merged", "{}", TOLLGATE_MERGE_PATCH, INTEGERS),
    LASTING("appended", "[]", TOLLGATE_APPEND, STRINGS),
    LASTING("added", "0", TOLLGATE_ADD, AN_INTEGER),
    LASTING("united", "[]", TOLLGATE_UNION, STRINGS),
    LASTING("greatest", "0", TOLLGATE_MAX, AN_INTEGER),
    {.name = "passing", .initial = "\"nobody\"", .schema = "{" A_STRING "}"},
    LASTING("large", "\"\"", TOLLGATE_REPLACE, A_STRING),
    {.name = "shelf.label"},
};

const tollgate_component_descriptor tollgate_component = {
    .id = "tour-c", .version = "0.1.0", .tools = tools, .tool_count = 1,
    .keys = keys, .key_count = sizeof keys / sizeof *keys,
};
