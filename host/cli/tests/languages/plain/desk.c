#include "parcel_desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef exports_parcels_desk_desk_parcel_t parcel;
typedef exports_parcels_desk_desk_list_parcel_t parcels;
typedef exports_parcels_desk_desk_stamp_t stamp;

static const uint64_t MOST = 1000000;

bool exports_parcels_desk_desk_total(parcels *all, uint64_t *grams, exports_parcels_desk_desk_refusal_t *why) {
  *grams = 0;
  for (size_t at = 0; at < all->len; at++) *grams += all->ptr[at].grams;
  if (all->len == 0) why->tag = EXPORTS_PARCELS_DESK_DESK_REFUSAL_EMPTY;
  if (*grams > MOST) {
    why->tag = EXPORTS_PARCELS_DESK_DESK_REFUSAL_TOO_HEAVY;
    why->val.too_heavy = *grams;
  }
  return all->len > 0 && *grams <= MOST;
}

bool exports_parcels_desk_desk_heaviest(parcels *all, parcel *found) {
  for (size_t at = 0; at < all->len; at++)
    if (at == 0 || all->ptr[at].grams > found->grams) *found = all->ptr[at];
  return all->len > 0;
}

void exports_parcels_desk_desk_sort(parcels *all, bool heavy_first, parcels *sorted) {
  for (size_t at = 1; at < all->len; at++) {
    parcel moved = all->ptr[at];
    size_t to = at;
    for (; to > 0; to--) {
      uint64_t before = all->ptr[to - 1].grams;
      if (heavy_first ? before >= moved.grams : before <= moved.grams) break;
      all->ptr[to] = all->ptr[to - 1];
    }
    all->ptr[to] = moved;
  }
  *sorted = *all;
}

void exports_parcels_desk_desk_restamp(stamp *given, stamp *ret) {
  ret->tag = EXPORTS_PARCELS_DESK_DESK_STAMP_WORDED;
  parcel_desk_string_t *words = &ret->val.worded;
  if (given->tag == EXPORTS_PARCELS_DESK_DESK_STAMP_PLAIN) {
    ret->tag = EXPORTS_PARCELS_DESK_DESK_STAMP_DATED;
    ret->val.dated = (parcel_desk_tuple2_u16_u8_t){1840, 5};
  } else if (given->tag == EXPORTS_PARCELS_DESK_DESK_STAMP_DATED) {
    char date[16];
    snprintf(date, sizeof date, "%u/%u", given->val.dated.f0, given->val.dated.f1);
    parcel_desk_string_dup(words, date);
  } else {
    size_t len = given->val.worded.len;
    *words = (parcel_desk_string_t){malloc(2 * len + 1), 2 * len};
    memcpy(words->ptr, given->val.worded.ptr, len);
    memcpy(words->ptr + len, given->val.worded.ptr, len);
  }
}

// The bits of a character's first byte, and how many bytes follow it.
static uint32_t first_of(uint8_t byte, int *following) {
  *following = byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  return *following ? byte & (0x3F >> *following) : byte;
}

void exports_parcels_desk_desk_spell(parcel_desk_string_t *text, parcel_desk_list_char32_t *ret) {
  *ret = (parcel_desk_list_char32_t){malloc((text->len + 1) * sizeof(uint32_t)), 0};
  for (size_t at = 0; at < text->len;) {
    int following;
    uint32_t letter = first_of(text->ptr[at++], &following);
    while (following-- > 0) letter = letter << 6 | (text->ptr[at++] & 0x3F);
    ret->ptr[ret->len++] = letter;
  }
}

double exports_parcels_desk_desk_price(uint32_t grams, float rate) { return (double)grams * rate; }

void exports_parcels_desk_desk_init(parcel_desk_string_t *label, exports_parcels_desk_desk_size_t size, parcel *ret) {
  *ret = (parcel){.label = *label, .size = size, .care = EXPORTS_PARCELS_DESK_DESK_CARE_UPRIGHT};
}

int64_t exports_parcel_desk_next(int64_t number) { return number + 1; }
