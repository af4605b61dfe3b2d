const MOST = 1_000_000;

const weight = (parcel) => Number(parcel.grams);

export const desk = {
  total(parcels) {
    if (parcels.length === 0) throw { tag: "empty" };
    const grams = parcels.reduce((sum, parcel) => sum + weight(parcel), 0);
    if (grams > MOST) throw { tag: "too-heavy", val: grams };
    return grams;
  },

  heaviest(parcels) {
    return desk.sort(parcels, true)[0] ?? null;
  },

  sort(parcels, heavyFirst) {
    return [...parcels].sort((a, b) => (heavyFirst ? weight(b) - weight(a) : weight(a) - weight(b)));
  },

  restamp(stamp) {
    switch (stamp.tag) {
      case "plain":
        return { tag: "dated", val: [1840, 5] };
      case "dated":
        return { tag: "worded", val: stamp.val.join("/") };
      default:
        return { tag: "worded", val: stamp.val + stamp.val };
    }
  },

  spell: (text) => [...text],

  // componentize-qjs hands over an u32 as if it had a sign.
  price: (grams, rate) => (grams >>> 0) * rate,

  init: (label, size) => ({ label, grams: 0, mark: null, size, care: { upright: true } }),
};

export const next = (number) => number + 1;
