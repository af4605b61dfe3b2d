// Calls tools in a test as the host would, without wasm. A test is a program compiled
// from itself, the tool's file and tollgate_testing.c:
//
//   tollgate_test test = {.state = "{\"notes.count\":1}"};
//   tollgate_test_call(&test, "count_notes", "{\"word\":\"milk\"}");
//   assert(strcmp(test.status, "success") == 0 && strcmp(test.data, "1") == 0);
#ifndef TOLLGATE_TESTING_H
#define TOLLGATE_TESTING_H

#include "tollgate.h"
#include "tollgate_child.h"
#include "tollgate_http.h"

typedef struct {
  // The call's input; all fields are optional.
  // An object with the values of keys by their full names, COMPONENT-ID.NAME.
  const char *state;
  // A person's answer as JSON, if the call is to resume.
  const char *decision;
  // Whether the run is being cancelled.
  bool cancelled;
  // An object with the settings that an operator granted.
  const char *settings;
  // Answers the tool's HTTP requests.
  tollgate_http_response (*serve)(const tollgate_http_request *request);
  // Answers the tool's child runs.
  tollgate_child_outcome (*run_child)(const tollgate_child_run *child);

  // The call's outcome.
  // `success`, `pending`, `error`, or the refusal that ended it: `invalid_arguments`,
  // `execution_failed`, `denied`, `not_found`, `internal`.
  const char *status;
  // JSON; NULL if there is no answer.
  const char *data;
  // NULL if there is none.
  const char *message;
  // The ticket as a JSON object; NULL if there is none or it is a plain question.
  const char *ticket;
  // JSON lists in chronological order: `[["notes.count",1]]`,
  // `[["add_context","..."]]`, `[["log","info","..."],["progress","running",null,0.5]]`.
  const char *updates, *actions, *reports;
} tollgate_test;

// Calls the tool's own check of the arguments if it has one, and then the tool.
void tollgate_test_call(tollgate_test *test, const char *tool_name, const char *args);

#endif
