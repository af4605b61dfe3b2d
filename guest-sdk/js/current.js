// Whether a call is in progress: what runs while the component is built cannot reach the host.
export const current = { isCalled: false };
