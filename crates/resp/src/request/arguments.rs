//! Arguments of one request, as ranges.

use std::collections::TryReserveError;

use crate::limits::IDLE_ARGUMENT_COUNT_MAX;

/// Bytes behind one pointer that counts its owners.
pub type SharedBytes = triomphe::ThinArc<(), u8>;

/// Start of the span of an argument that was received into memory of its own: behind the end of
/// every slice, so that no lookup of another argument costs more for it.
const OWN_MEMORY: usize = isize::MAX as usize + 1;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub start: usize,
    pub length: usize,
}

/// Arguments of one request: ranges into the input they were parsed from, or, for an inline
/// request, whose quotes and escapes have to be undone, into storage of its own. Reused from
/// request to request.
#[derive(Debug, Default)]
pub struct Arguments {
    spans: Vec<Span>,
    unquoted: Vec<u8>,
    inline: bool,
    /// The argument that was received into memory of its own.
    large: Option<SharedBytes>,
}

impl Arguments {
    /// No arguments, nothing allocated.
    #[must_use]
    pub fn new() -> Arguments {
        Arguments::default()
    }

    /// Number of arguments, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument at `index`; `input` is the parser's input when it completed the request.
    ///
    /// # Panics
    /// When there is no such argument.
    #[inline]
    #[must_use]
    pub fn get<'a>(&'a self, index: usize, input: &'a [u8]) -> &'a [u8] {
        self.view(input).get(index)
    }

    /// The arguments together with the bytes that contain them.
    #[inline]
    #[must_use]
    pub fn view<'a>(&'a self, input: &'a [u8]) -> ArgumentView<'a> {
        let bytes = if self.inline { &self.unquoted } else { input };
        ArgumentView { spans: &self.spans, bytes, large: self.large.as_ref() }
    }

    /// Forgets an argument that was received into memory of its own. The arguments have to be
    /// parsed anew before they are looked at.
    pub fn release_large(&mut self) {
        self.large = None;
    }

    /// Gives back memory that an unusually large request left allocated. To be called when a
    /// connection or worker becomes idle, not per request.
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

    /// Position of the first argument in the input; none for an inline request.
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

    /// Adds an argument that was received into memory of its own.
    pub(super) fn push_large(&mut self, bytes: &SharedBytes) {
        self.spans.push(Span { start: OWN_MEMORY, length: bytes.slice.len() });
        self.large = Some(bytes.clone());
    }

    /// As [`push`](Self::push), in a request of any length; false if there is no memory.
    #[inline]
    #[must_use]
    pub(super) fn try_push(&mut self, start: usize, length: usize) -> bool {
        let has_room =
            self.spans.len() < self.spans.capacity() || self.spans.try_reserve(1).is_ok();
        if has_room {
            self.push(start, length);
        }
        has_room
    }

    /// Starts an inline request: arguments are pushed as ranges of [`Arguments::unquoted_mut`].
    pub(super) fn begin_inline(&mut self) {
        self.spans.clear();
        self.unquoted.clear();
        self.inline = true;
    }

    pub(super) fn unquoted_mut(&mut self) -> &mut Vec<u8> {
        &mut self.unquoted
    }
}

/// Arguments of one request with bytes of their own: for a request that outlives the buffer it
/// arrived in.
#[derive(Debug)]
pub struct OwnedArguments {
    spans: Box<[Span]>,
    bytes: Box<[u8]>,
}

/// Room for the arguments of one request after the other.
#[derive(Debug, Default)]
pub struct ArgumentBuffer {
    spans: Vec<Span>,
    bytes: Vec<u8>,
}

impl ArgumentBuffer {
    /// Copies the arguments of a request, in the place of the ones before; returns their bytes.
    ///
    /// # Errors
    ///
    /// When there is no memory for all of them.
    pub fn fill<'a>(
        &mut self,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize, TryReserveError> {
        self.spans.clear();
        self.bytes.clear();
        for argument in arguments {
            self.spans.try_reserve(1)?;
            self.bytes.try_reserve(argument.len())?;
            self.spans.push(Span { start: self.bytes.len(), length: argument.len() });
            self.bytes.extend_from_slice(argument);
        }
        Ok(self.bytes.len())
    }

    /// The arguments.
    #[must_use]
    pub fn view(&self) -> ArgumentView<'_> {
        ArgumentView { spans: &self.spans, bytes: &self.bytes, large: None }
    }

    /// Gives back room beyond `bytes_max`.
    pub fn shrink(&mut self, bytes_max: usize) {
        self.spans.clear();
        self.bytes.clear();
        self.spans.shrink_to(IDLE_ARGUMENT_COUNT_MAX);
        self.bytes.shrink_to(bytes_max);
    }
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

    /// Copies the arguments of a request; none when there is no memory for that.
    #[must_use]
    pub fn try_new(arguments: &ArgumentView<'_>) -> Option<OwnedArguments> {
        let (mut spans, mut bytes) = (Vec::new(), Vec::new());
        spans.try_reserve_exact(arguments.len()).ok()?;
        bytes.try_reserve_exact(arguments.iter().map(<[u8]>::len).sum()).ok()?;
        for argument in arguments.iter() {
            spans.push(Span { start: bytes.len(), length: argument.len() });
            bytes.extend_from_slice(argument);
        }
        // Their capacity is their length: `into_boxed_slice` moves neither.
        Some(OwnedArguments { spans: spans.into_boxed_slice(), bytes: bytes.into_boxed_slice() })
    }

    /// The arguments.
    #[must_use]
    pub fn view(&self) -> ArgumentView<'_> {
        ArgumentView { spans: &self.spans, bytes: &self.bytes, large: None }
    }

    /// Bytes of memory taken.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.spans) + self.bytes.len()
    }
}

/// Arguments and the bytes that contain them, as passed to a command handler. Copied freely.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentView<'a> {
    spans: &'a [Span],
    bytes: &'a [u8],
    large: Option<&'a SharedBytes>,
}

impl<'a> ArgumentView<'a> {
    /// Number of arguments, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument at `index`.
    ///
    /// # Panics
    /// When there is no such argument.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.bytes_of(self.spans[index])
    }

    #[inline]
    fn bytes_of(&self, span: Span) -> &'a [u8] {
        self.bytes.get(span.start..span.start + span.length).unwrap_or_else(|| self.large_of(span))
    }

    #[cold]
    fn large_of(&self, span: Span) -> &'a [u8] {
        match self.large {
            Some(bytes) if span.start == OWN_MEMORY => &bytes.slice,
            _ => panic!("the arguments are not of this input"),
        }
    }

    /// Owner of an argument's bytes, if the argument was received into memory of its own: a value
    /// that is made of it needs no copy.
    #[inline]
    #[must_use]
    pub fn owner_of(&self, argument: &[u8]) -> Option<&'a SharedBytes> {
        self.large.filter(|large| std::ptr::eq(&raw const large.slice, argument))
    }

    /// Bytes of the argument that was received into memory of its own.
    #[inline]
    #[must_use]
    pub fn large_bytes(&self) -> usize {
        self.large.map_or(0, |large| large.slice.len())
    }

    /// Argument at `index` with the bytes behind it in its buffer, and its length: for code that
    /// loads vectors longer than the argument may be.
    ///
    /// # Panics
    /// When there is no such argument.
    #[inline]
    #[must_use]
    pub fn get_in_buffer(&self, index: usize) -> (&'a [u8], usize) {
        let span = self.spans[index];
        (self.bytes.get(span.start..).unwrap_or_else(|| self.large_of(span)), span.length)
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let view = *self;
        self.spans.iter().map(move |&span| view.bytes_of(span))
    }
}
