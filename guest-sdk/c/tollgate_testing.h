// Calls tools in a test as the host would, without wasm. A test is a program that is
// compiled from itself, the tool's file and tollgate_testing.c:
//
//   tollgate_test test = {.state = "{\"notes.count\":1}"};
//   tollgate_test_call(&test, "count_notes", "{\"word\":\"milk\"}");
//   assert(strcmp(test.status, "success") == 0 && strcmp(test.data, "1") == 0);
#ifndef TOLLGATE_TESTING_H
#define TOLLGATE_TESTING_H

#include "tollgate.h"

typedef struct {
  // What the call finds; each may be left out.
  // An object with the values of keys by their whole names, COMPONENT-ID.NAME.
  const char *state;
  // What a person answered, as JSON, where the call is to go on.
  const char *decision;
  // Whether the run is being cancelled.
  bool cancelled;

  // What it comes to.
  // `success`, `pending`, `error`, or what ended it without an answer:
  // `invalid_arguments`, `execution_failed`, `denied`, `not_found`, `internal`.
  const char *status;
  // JSON; NULL where there is no answer.
  const char *data;
  // NULL where there is none.
  const char *message;
  // What is asked, as a JSON object; NULL where it is nothing or a plain question.
  const char *ticket;
  // JSON lists, in the order in which things came: `[["notes.count",1]]`,
  // `[["add_context","..."]]`, `[["log","info","..."],["progress","running",null,0.5]]`.
  const char *updates, *actions, *reports;
} tollgate_test;

// Asks the tool's own check of the arguments where it has one, and then the tool.
void tollgate_test_call(tollgate_test *test, const char *tool_name, const char *args);

#endif
