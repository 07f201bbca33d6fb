//! Names that a Rust file uses: what its `use` lines import, and the paths in its code, in the
//! arguments of macros too. Code for tests, attributes and visibilities are left out.
//!
//! No name resolution as a compiler has it: a path is followed through the file's own `use` lines
//! only. What a method returns has no name here.

use std::collections::HashMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ImplItem, Item, ItemMod, ItemUse, UseTree, Visibility};

use crate::rust::{self, RustFile};

/// A name in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Segments as written; what an own `use` line abbreviates is written out.
    pub segments: Vec<String>,
    /// Line, counted from 1.
    pub line: usize,
    /// Inline modules around it.
    pub scope: Vec<String>,
    /// True for a name in a `use` line.
    pub is_import: bool,
    /// Name under which a `pub use` passes it on, `*` for all of its names.
    pub exported_as: Option<String>,
}

/// Names of a file, in the order of a visit.
#[must_use]
pub fn names(file: &RustFile<'_>) -> Vec<Name> {
    let mut collector = Collector::default();
    collector.visit_file(&file.tree);
    let Collector { mut names, aliases, .. } = collector;
    for name in names.iter_mut().filter(|name| !name.is_import && name.segments.len() > 1) {
        if let Some((whole, scope)) = aliases.get(&name.segments[0]) {
            name.segments.splice(..1, whole.iter().cloned());
            name.scope.clone_from(scope);
        }
    }
    names
}

/// Modules that a file declares for tests only, without a body.
pub fn test_modules<'f>(file: &'f RustFile<'_>) -> impl Iterator<Item = String> + 'f {
    file.tree.items.iter().filter_map(|item| match item {
        Item::Mod(ItemMod { attrs, ident, content: None, .. }) if rust::is_for_tests(attrs) => {
            Some(ident.to_string())
        }
        _ => None,
    })
}

#[derive(Default)]
struct Collector {
    names: Vec<Name>,
    /// Segments and scope of what `use` lines bring in, by its name in this file.
    aliases: HashMap<String, (Vec<String>, Vec<String>)>,
    scope: Vec<String>,
}

impl Collector {
    fn add(&mut self, segments: Vec<String>, line: usize) {
        let scope = self.scope.clone();
        self.names.push(Name { segments, line, scope, is_import: false, exported_as: None });
    }

    fn add_tree(&mut self, before: &[String], tree: &UseTree, is_exported: bool) {
        let with = |name: &syn::Ident| {
            let name = name.to_string();
            let last = (name != "self" || before.is_empty()).then_some(name);
            before.iter().cloned().chain(last).collect::<Vec<String>>()
        };
        match tree {
            UseTree::Path(path) => {
                self.add_tree(&with(&path.ident), &path.tree, is_exported);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(before, tree, is_exported);
                }
            }
            UseTree::Name(name) => {
                let segments = with(&name.ident);
                let alias = segments.last().cloned().unwrap_or_default();
                self.add_import(segments, alias, &name.ident, is_exported);
            }
            UseTree::Rename(rename) => {
                let alias = rename.rename.to_string();
                self.add_import(with(&rename.ident), alias, &rename.ident, is_exported);
            }
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                let exported_as = is_exported.then(|| "*".to_owned());
                self.push_import(before.to_vec(), line, exported_as);
            }
        }
    }

    fn add_import(
        &mut self,
        segments: Vec<String>,
        alias: String,
        at: &syn::Ident,
        is_exported: bool,
    ) {
        self.aliases.insert(alias.clone(), (segments.clone(), self.scope.clone()));
        self.push_import(segments, at.span().start().line, is_exported.then_some(alias));
    }

    fn push_import(&mut self, segments: Vec<String>, line: usize, exported_as: Option<String>) {
        let scope = self.scope.clone();
        self.names.push(Name { segments, line, scope, is_import: true, exported_as });
    }

    /// Names in the arguments of a macro: identifiers, and those that `::` joins.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !segments.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 => segments.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.flush(&mut segments, line);
                    line = ident.span().start().line;
                    segments.push(ident.to_string());
                }
                TokenTree::Group(group) => {
                    self.flush(&mut segments, line);
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.flush(&mut segments, line),
            }
            colons = 0;
        }
        self.flush(&mut segments, line);
    }

    fn flush(&mut self, segments: &mut Vec<String>, line: usize) {
        if !segments.is_empty() {
            self.add(std::mem::take(segments), line);
        }
    }
}

impl<'a> Visit<'a> for Collector {
    fn visit_item(&mut self, item: &'a Item) {
        if !rust::is_for_tests(rust::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let attributes: &[syn::Attribute] = match item {
            ImplItem::Fn(function) => &function.attrs,
            ImplItem::Const(constant) => &constant.attrs,
            _ => &[],
        };
        if !rust::is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        self.scope.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.scope.pop();
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let is_exported = !matches!(item.vis, Visibility::Inherited);
        self.add_tree(&[], &item.tree, is_exported);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let first = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        self.add(segments, first);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.add_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'a Visibility) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::of_text;

    fn found(text: &str) -> Vec<String> {
        names(&of_text("a.rs", text)).iter().map(|name| name.segments.join("::")).collect()
    }

    #[test]
    fn own_imports_are_written_out() {
        let text = "use crate::{a::{self, B}, c as d}; fn f() { a::g(); d::h(); e::i() }";
        let want = ["crate::a", "crate::a::B", "crate::c", "crate::a::g", "crate::c::h", "e::i"];
        assert_eq!(found(text), want);
    }

    #[test]
    fn arguments_of_macros_are_read() {
        assert_eq!(found("fn f() { m!(x, [crate::a::B::new()], 1 + $crate::c) }").len(), 3);
        assert_eq!(found("m! { impl A { f: std::fs::File } }")[3..], ["std::fs::File"]);
    }

    #[test]
    fn tests_attributes_and_visibilities_are_left_out() {
        let text = "#[cfg(test)] use a::B; #[cfg(test)] fn f() { a::g() }
            impl C { #[cfg(test)] fn h() { a::i() } }
            #[d::e] pub(in crate::j) struct K; #[cfg(test)] mod tests { use a::B; }";
        assert_eq!(found(text), ["C"]);
    }

    #[test]
    fn re_exports_are_told_apart() {
        let file = of_text("a.rs", "pub use b::C as D; pub(crate) use e::*; use f::G;");
        let exported: Vec<_> = names(&file).into_iter().map(|name| name.exported_as).collect();
        assert_eq!(exported, [Some("D".to_owned()), Some("*".to_owned()), None]);
    }
}
