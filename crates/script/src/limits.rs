//! Limits of the language and of its libraries.

/// Frames of Lua functions that may be active at once in one coroutine; deeper calls raise
/// "stack overflow", as `LUAI_MAXCALLS` of Lua 5.1.
pub const CALLS_MAX: usize = 20_000;

/// Values on the stack of one coroutine.
pub const STACK_VALUES_MAX: usize = 1_000_000;

/// Nested calls between library functions and Lua: metamethods, comparators, replacements.
/// Each one uses the stack of the thread.
pub const NESTED_CALLS_MAX: usize = 100;

/// Coroutines that have resumed each other.
pub const RESUMED_MAX: usize = 190;

/// Nesting of blocks, functions and expressions in a source, as `LUAI_MAXCCALLS` of Lua 5.1.
pub const SYNTAX_DEPTH_MAX: usize = 200;

/// Local variables of a function.
pub const LOCALS_MAX: usize = 200;

/// Upvalues of a function.
pub const UPVALUES_MAX: usize = 60;

/// Registers of a function.
pub const REGISTERS_MAX: usize = 250;

/// Items that a table constructor gathers in registers before it stores them.
pub const ITEMS_PER_FLUSH: u32 = 50;

/// Constants of a function, and the longest jump.
pub const CONSTANTS_MAX: usize = (1 << 18) - 1;

/// Bytes of a number as text, at most.
pub const NUMBER_BYTES_MAX: usize = 24;

/// Captures of a pattern.
pub const CAPTURES_MAX: usize = 32;

/// Nesting of one match, in items of its pattern.
pub const PATTERN_DEPTH_MAX: usize = 4_000;

/// Bytes, and items of a set, that a match looks at in one step.
pub const PATTERN_BYTES_PER_STEP: usize = 16;

/// Arguments and results that a library function may have on the stack together, as
/// `LUAI_MAXCSTACK` of Lua 5.1.
pub const NATIVE_VALUES_MAX: usize = 8_000;

/// Values that one call of a library may unpack from a text.
pub const UNPACK_VALUES_MAX: usize = 7_990;

/// Nesting of values that `cmsgpack` packs; deeper tables become nil.
pub const MSGPACK_DEPTH_MAX: usize = 16;

/// Nesting of a packed value that `cmsgpack` reads.
pub const MSGPACK_NESTING_MAX: usize = 1_000;

/// Nesting of a reply that becomes a value, and of a value that becomes a reply.
pub const REPLY_DEPTH_MAX: usize = 100;

/// Highest depth that a script may set for `cjson`.
pub const JSON_DEPTH_MAX: usize = 1_000;

/// Bytes of a table without entries, of a function, of a coroutine, as they are accounted.
pub const OBJECT_BYTES: usize = 96;

/// Bytes in pieces from which the system is asked for them before the first one is made.
pub const ASKED_BYTES_MIN: usize = 1 << 20;

/// Live bytes under which no collection of garbage begins.
pub const COLLECT_BYTES_MIN: usize = 1 << 20;

/// Free places of an arena that a collection does not give back.
pub const FREE_PLACES_KEPT: usize = 4_096;

/// Room for notes of what a run has made that is kept from run to run.
pub const NOTED_OBJECTS_KEPT: usize = 1_024;

/// Empty tables and strings that the runs before have left for the next ones, the values for which
/// such a table has room at most, and the bytes of such a string.
pub const SPARE_TABLES_MAX: usize = 16;
pub const SPARE_STRINGS_MAX: usize = 32;
pub const SPARE_TABLE_VALUES_MAX: usize = 16;
pub const SPARE_STRING_BYTES_MAX: usize = 64;

/// Bytes of a part of a text that is copied without an allocation.
pub const SHORT_TEXT_BYTES: usize = 64;

/// Bytes of a joined text up to which a buffer is kept for the next one.
pub const JOINED_BYTES_KEPT: usize = 4_096;

/// Values and frames for which a stack keeps room from run to run.
pub const STACK_VALUES_KEPT: usize = 1_024;

/// Steps between two questions to the host: calls, backward jumps, and what counts as such.
pub const STEPS_PER_INTERRUPT: u32 = 10_000;

/// Bytes that are copied, hashed or compared in the time of a step.
pub const BYTES_PER_STEP: usize = 128;

/// Instructions in the time of a step: a call counts as the steps of all instructions of its
/// function.
pub const INSTRUCTIONS_PER_STEP: usize = 64;

/// Values that are copied, or passed over, in the time of a step.
pub const VALUES_PER_STEP: usize = 16;

/// Steps as which a command counts, and, in bytes, the block in which long texts are built.
pub const STEPS_PER_COMMAND: usize = 32;
pub const BLOCK_BYTES: usize = 1 << 16;
