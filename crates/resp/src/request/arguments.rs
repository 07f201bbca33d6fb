//! The arguments of one request, as ranges.

use crate::limits::IDLE_ARGUMENT_COUNT_MAX;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub start: usize,
    pub length: usize,
}

/// The arguments of one request: ranges into the input they were parsed from, or, for an inline request, whose
/// quotes and escapes have to be undone, into storage of its own. Reused from request to request.
#[derive(Debug, Default)]
pub struct Arguments {
    spans: Vec<Span>,
    unquoted: Vec<u8>,
    inline: bool,
}

impl Arguments {
    /// No arguments, nothing allocated.
    #[must_use]
    pub fn new() -> Arguments {
        Arguments::default()
    }

    /// How many arguments there are, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`; `input` is what the parser was given when it completed the request.
    ///
    /// # Panics
    /// When there is no such argument.
    #[inline]
    #[must_use]
    pub fn get<'a>(&'a self, index: usize, input: &'a [u8]) -> &'a [u8] {
        self.view(input).get(index)
    }

    /// The arguments together with the bytes they stand in.
    #[inline]
    #[must_use]
    pub fn view<'a>(&'a self, input: &'a [u8]) -> ArgumentView<'a> {
        let bytes = if self.inline { &self.unquoted } else { input };
        ArgumentView { spans: &self.spans, bytes }
    }

    /// Gives back memory that an unusually large request left allocated. To be called when a connection or
    /// worker goes idle, not per request.
    pub fn shrink(&mut self) {
        self.spans.clear();
        self.unquoted.clear();
        self.spans.shrink_to(IDLE_ARGUMENT_COUNT_MAX);
        self.unquoted.shrink_to(IDLE_ARGUMENT_COUNT_MAX);
    }

    /// Bytes of memory taken.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.unquoted.capacity()
    }

    /// Where the first argument stands in the input; none for an inline request.
    pub(super) fn first_span(&self) -> Option<Span> {
        self.spans.first().copied().filter(|_| !self.inline)
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.inline = false;
    }

    #[inline]
    pub(super) fn push(&mut self, start: usize, length: usize) {
        self.spans.push(Span { start, length });
    }

    /// From here on arguments are pushed as ranges of [`Arguments::unquoted_mut`].
    pub(super) fn begin_inline(&mut self) {
        self.spans.clear();
        self.unquoted.clear();
        self.inline = true;
    }

    pub(super) fn unquoted_mut(&mut self) -> &mut Vec<u8> {
        &mut self.unquoted
    }
}

/// The arguments of one request with bytes of their own: for a request that outlives the buffer it came in.
#[derive(Debug)]
pub struct OwnedArguments {
    spans: Box<[Span]>,
    bytes: Box<[u8]>,
}

impl OwnedArguments {
    /// Copies arguments.
    #[must_use]
    pub fn new<'a>(arguments: impl IntoIterator<Item = &'a [u8]>) -> OwnedArguments {
        let mut bytes = Vec::new();
        let spans = arguments
            .into_iter()
            .map(|argument| {
                let start = bytes.len();
                bytes.extend_from_slice(argument);
                Span { start, length: argument.len() }
            })
            .collect();
        OwnedArguments { spans, bytes: bytes.into_boxed_slice() }
    }

    /// The arguments.
    #[must_use]
    pub fn view(&self) -> ArgumentView<'_> {
        ArgumentView { spans: &self.spans, bytes: &self.bytes }
    }

    /// Bytes of memory taken.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.spans) + self.bytes.len()
    }
}

/// Arguments and the bytes they stand in: what a command handler is given. Copied freely.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentView<'a> {
    spans: &'a [Span],
    bytes: &'a [u8],
}

impl<'a> ArgumentView<'a> {
    /// How many arguments there are, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`.
    ///
    /// # Panics
    /// When there is no such argument.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let span = self.spans[index];
        &self.bytes[span.start..span.start + span.length]
    }

    /// The argument at `index` with all that stands behind it in its buffer, and how long it is by itself: for those who read
    /// in pieces longer than it may be.
    ///
    /// # Panics
    /// When there is no such argument.
    #[inline]
    #[must_use]
    pub fn get_in_buffer(&self, index: usize) -> (&'a [u8], usize) {
        let span = self.spans[index];
        (&self.bytes[span.start..], span.length)
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.start..span.start + span.length])
    }
}
