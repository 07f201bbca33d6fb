//! Rust sources, parsed.

use std::collections::HashMap;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemFn, ItemMod, Meta, Token, TraitItemFn};

use crate::Repository;

/// A parsed file.
pub struct RustFile<'f> {
    /// Path below the repository.
    pub path: &'f str,
    /// Source text.
    pub text: &'f str,
    /// Syntax tree.
    pub tree: syn::File,
}

/// All Rust files of the repository.
///
/// # Panics
///
/// When one is no valid Rust.
#[must_use]
pub fn parse(repository: &Repository) -> Vec<RustFile<'_>> {
    let parse = |(path, text)| {
        let tree = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        RustFile { path, text, tree }
    };
    repository.with_ending(".rs").map(parse).collect()
}

/// True if attributes leave an item out of every build that is no test.
#[must_use]
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.filter_map(|cfg| cfg.parse_args::<Meta>().ok()).any(|meta| demands_test(&meta))
}

fn demands_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let inner = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let Ok(inner) = inner else { return false };
    if list.path.is_ident("all") {
        inner.iter().any(demands_test)
    } else {
        list.path.is_ident("any") && !inner.is_empty() && inner.iter().all(demands_test)
    }
}

/// Attributes of an item.
#[must_use]
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name, behind the type of its implementation: `Type::name`; repeated names get `#2`, `#3`.
    pub name: String,
    /// First line of the signature, counted from 1.
    pub line: usize,
    /// Lines from the signature to the closing brace.
    pub line_count: usize,
}

/// All functions of a file, nested ones too.
#[must_use]
pub fn functions(file: &RustFile<'_>) -> Vec<Function> {
    let mut collector = FunctionCollector::default();
    collector.visit_file(&file.tree);
    number_repeated(&mut collector.functions);
    collector.functions
}

/// Makes the names of functions unique within their file.
pub fn number_repeated(functions: &mut [Function]) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for function in functions {
        let count = counts.entry(function.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            function.name = format!("{}#{count}", function.name);
        }
    }
}

#[derive(Default)]
struct FunctionCollector {
    /// Type of the implementation around.
    of_type: Option<String>,
    functions: Vec<Function>,
}

impl FunctionCollector {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let line = signature.span().start().line;
        let line_count = block.span().end().line - line + 1;
        let of_type = self.of_type.as_ref().map(|name| format!("{name}::")).unwrap_or_default();
        let name = format!("{of_type}{}", signature.ident);
        self.functions.push(Function { name, line, line_count });
    }
}

impl<'a> Visit<'a> for FunctionCollector {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let before = self.of_type.take();
        if let syn::Type::Path(path) = &*item.self_ty {
            self.of_type = path.path.segments.last().map(|segment| segment.ident.to_string());
        }
        visit::visit_item_impl(self, item);
        self.of_type = before;
    }

    fn visit_item_fn(&mut self, function: &'a ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// Lines of a file without those of its inline test modules.
#[must_use]
pub fn line_count_without_tests(file: &RustFile<'_>) -> usize {
    let in_tests = |item: &Item| match item {
        Item::Mod(ItemMod { attrs, content: Some(_), .. }) if is_for_tests(attrs) => {
            item.span().end().line - item.span().start().line + 1
        }
        _ => 0,
    };
    file.text.lines().count() - file.tree.items.iter().map(in_tests).sum::<usize>()
}

/// One parsed source, for the tests of rules.
///
/// # Panics
///
/// When it is no valid Rust.
#[cfg(test)]
pub(crate) fn of_text<'f>(path: &'f str, text: &'f str) -> RustFile<'f> {
    RustFile { path, text, tree: syn::parse_file(text).expect("the test's source is valid") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_count_from_signature_to_brace() {
        let file = of_text("a.rs", "/// Doc.\n#[inline]\nfn one() {\n    two();\n}\n");
        let want = Function { name: "one".to_owned(), line: 3, line_count: 3 };
        assert_eq!(functions(&file), [want]);
    }

    #[test]
    fn functions_are_named_by_type_and_number() {
        let file = of_text("a.rs", "impl A { fn f() {} }\nimpl T<B> for A { fn f() {} }\n");
        let names: Vec<_> = functions(&file).into_iter().map(|function| function.name).collect();
        assert_eq!(names, ["A::f", "A::f#2"]);
    }

    #[test]
    fn test_modules_do_not_count() {
        let file = of_text("a.rs", "fn one() {}\n#[cfg(test)]\nmod tests {\n    fn two() {}\n}\n");
        assert_eq!(line_count_without_tests(&file), 1);
    }

    #[test]
    fn conditions_that_hold_outside_of_tests_are_told_apart() {
        let of = |text| is_for_tests(attributes(&of_text("a.rs", text).tree.items[0]));
        assert!(of("#[cfg(test)] mod a;"));
        assert!(of("#[cfg(all(test, loom))] mod a;"));
        assert!(!of("#[cfg(any(test, loom))] mod a;"));
        assert!(!of("#[cfg(not(test))] mod a;"));
        assert!(!of("mod a;"));
    }
}
