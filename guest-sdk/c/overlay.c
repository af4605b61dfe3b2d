// A call's own writes, as its later reads see them: each reducer's effect on a value, the
// same as the host's. The host decides when the call commits.
#include "overlay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_value written(json_writer text) { return (json_value){text.start, text.len}; }

static bool is_object(json_value value) { return value.len > 0 && value.start[0] == '{'; }

static void put_element(json_writer *list, json_value element) {
  json_put(list, list->len > 1 ? "," : "");
  json_put_value(list, element);
}

static void put_elements(json_writer *list, json_value from) {
  json_value element;
  for (size_t at = 0; json_next(from, &at, &element);) put_element(list, element);
}

static json_value append(json_value value, json_value element) {
  json_writer list = {0};
  json_put(&list, "[");
  put_elements(&list, value);
  put_element(&list, element);
  json_put(&list, "]");
  return written(list);
}

static void put_member(json_writer *object, json_text name, json_value value) {
  json_put(object, object->len > 1 ? "," : "");
  json_put_string(object, name.start, name.len);
  json_put(object, ":");
  json_put_value(object, value);
}

static json_value merge_patch(json_value value, json_value patch) {
  if (!is_object(patch)) return patch;
  json_writer object = {0};
  json_text name;
  json_value member;
  json_put(&object, "{");
  for (size_t at = 0; is_object(value) && json_next_member(value, &at, &name, &member);) {
    json_value change = json_member(patch, name.start);
    if (change.len == 0) {
      put_member(&object, name, member);
    } else if (!json_is(change, "null")) {
      put_member(&object, name, merge_patch(member, change));
    }
  }
  for (size_t at = 0; json_next_member(patch, &at, &name, &member);) {
    bool is_new = !is_object(value) || json_member(value, name.start).len == 0;
    if (is_new && !json_is(member, "null")) put_member(&object, name, merge_patch((json_value){0}, member));
  }
  json_put(&object, "}");
  return written(object);
}

static bool is_whole(json_value value) {
  for (size_t at = 0; at < value.len; at++) {
    if (memchr(".eE", value.start[at], 3)) return false;
  }
  return json_integer(value, INT64_MIN) != INT64_MIN;
}

static json_value add(json_value value, json_value update) {
  json_writer sum = {0};
  int64_t whole;
  bool are_whole = is_whole(value) && is_whole(update);
  if (are_whole && !__builtin_add_overflow(json_integer(value, 0), json_integer(update, 0), &whole)) {
    json_put_integer(&sum, whole);
  } else {
    json_put_number(&sum, json_number(value, 0) + json_number(update, 0));
  }
  return written(sum);
}

static json_value greater(json_value value, json_value update) {
  bool is_greater = is_whole(value) && is_whole(update)
                        ? json_integer(update, 0) > json_integer(value, 0)
                        : json_number(update, -INFINITY) > json_number(value, -INFINITY);
  return value.len == 0 || is_greater ? update : value;
}

static int by_text(const void *a, const void *b) {
  const json_value *left = a, *right = b;
  size_t least = left->len < right->len ? left->len : right->len;
  int order = memcmp(left->start, right->start, least);
  return order ? order : (left->len > right->len) - (left->len < right->len);
}

static json_value united(json_value value, json_value update) {
  json_value both[2] = {value, update}, element;
  size_t count = 0, room = 0;
  json_value *elements = NULL;
  for (size_t list = 0; list < 2; list++) {
    for (size_t at = 0; json_next(both[list], &at, &element);) {
      if (count == room) elements = realloc(elements, (room = room * 2 + 16) * sizeof *elements);
      elements[count++] = element;
    }
  }
  if (count > 0) qsort(elements, count, sizeof *elements, by_text);
  json_writer set = {0};
  json_put(&set, "[");
  for (size_t at = 0; at < count; at++) {
    if (at == 0 || by_text(&elements[at - 1], &elements[at]) != 0) put_element(&set, elements[at]);
  }
  json_put(&set, "]");
  return written(set);
}

json_value tollgate_reduced(tollgate_reducer reducer, json_value value, json_value update) {
  switch (reducer) {
    case TOLLGATE_MERGE_PATCH: return merge_patch(value, update);
    case TOLLGATE_APPEND: return append(value, update);
    case TOLLGATE_ADD: return add(value, update);
    case TOLLGATE_UNION: return united(value, update);
    case TOLLGATE_MAX: return greater(value, update);
    default: return update;
  }
}
