//! Takes the mutexes and atomics of the engine from shuttle.

fn main() {
    println!("cargo::rustc-cfg=lock_core_shuttled");
}
