// The parts of tollgate_child.h that need no host; see tollgate_child_host.c.
#include "tollgate_child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const how[] = {
    "completed", "waits for input", "waits for a sign-in", "waits for a person", "failed", "was cancelled",
    "ran out of time",
};

bool tollgate_child_completed(tollgate_call *call, const tollgate_child_outcome *child) {
  if (child->error) {
    tollgate_refuse(call, child->refusal, child->error);
    return false;
  }
  if (child->status == TOLLGATE_CHILD_COMPLETED) return true;
  const char *reason = child->reason ? child->reason : "";
  size_t room = strlen(reason) + 64;
  char *message = malloc(room);
  snprintf(message, room, "The child agent %s%s%s.", how[child->status], *reason ? ": " : "", reason);
  tollgate_refuse(call, TOLLGATE_EXECUTION_FAILED, message);
  return false;
}
