use tollgate_sdk::Key;

static WITHOUT_COMPONENT: Key<u32> = Key::run("count");

static WITH_CAPITALS: Key<u32> = Key::run("Notes.count");

fn main() {}
