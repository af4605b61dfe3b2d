// The effect of a reducer; used by the library itself.
#ifndef TOLLGATE_OVERLAY_H
#define TOLLGATE_OVERLAY_H

#include "tollgate.h"

// The value after an update.
json_value tollgate_reduced(tollgate_reducer reducer, json_value value, json_value update);

#endif
