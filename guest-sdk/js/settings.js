// The settings that an operator granted.
import settings from "#settings";

export const setting = (name) => settings.get(name) ?? undefined;
