export const tool = { id: "wrong" };
