//! Random pieces of the language: each family of pieces is one part of Lua 5.1 of which scripts see
//! every detail. A program runs some pieces, each protected, and answers all that they give.

use crate::harness::answer;
use crate::tokens::TOKENS;

/// Source of random programs.
pub struct Pieces {
    random: fastrand::Rng,
    depth: usize,
}

const NUMBERS: [&str; 34] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "10",
    "255",
    "-0",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "0.1",
    "1/3",
    "1e15",
    "1e16",
    "123456789012",
    "2^31",
    "2^53",
    "-2^31",
    "2^63",
    "1e100",
    "1e-5",
    "1e-320",
    "1e308*10",
    "-1e308*10",
    "0/0",
    "0x10",
    "0xffffffff",
    "3.14159265358979",
    "100000000000000",
    "5e-324",
    "1.7976931348623157e308",
];

const TEXTS: [&str; 22] = [
    "''",
    "'a'",
    "'abc'",
    "'10'",
    "' 12 '",
    "'0x1F'",
    "'1e2'",
    "'1e'",
    "'-7'",
    "'nan'",
    "'inf'",
    "'hello world'",
    "'a\\0b'",
    "'\\n\\t\\\\'",
    "[[long\nline]]",
    "'%d'",
    "'a,b,,c'",
    "'key=value'",
    "'  trim  '",
    "'(x(y)z)'",
    "'\\255\\128'",
    "'THE (quick) fox'",
];

const VALUES: [&str; 12] = [
    "nil",
    "true",
    "false",
    "{}",
    "{1,2,3}",
    "{n=1}",
    "print",
    "type",
    "function() end",
    "M(1)",
    "M(2)",
    "coroutine.create(function() end)",
];

const ATOMS_OF_PATTERNS: [&str; 34] = [
    "a", "b", ".", "%a", "%d", "%s", "%w", "%p", "%l", "%u", "%x", "%c", "%z", "%A", "%S", "[abc]",
    "[^abc]", "[a-z]", "[%w_]", "[]x]", "[^]]", "[a-]", "(", ")", "()", "%1", "%2", "%b()", "%bxx",
    "%f[%w]", "%%", "%.", "$", "^",
];

const SUFFIXES: [&str; 6] = ["", "", "*", "+", "-", "?"];

const OPERATORS: [&str; 14] =
    ["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and"];

/// Definitions before all pieces: values as texts without addresses, and tables with metamethods.
const PRELUDE: &str = "local r={}\n\
    local function show(...)\n\
      local t={}\n\
      for i=1,select('#',...) do\n\
        local v=select(i,...)\n\
        local k=type(v)\n\
        if k=='string' then t[i]='s:'..string.gsub(v,'0x%x+','ADDR')\n\
        elseif k=='number' or k=='boolean' or k=='nil' then t[i]=tostring(v)\n\
        else t[i]=k end\n\
      end\n\
      return table.concat(t,'|')\n\
    end\n\
    local function run(f,...) r[#r+1]=show(pcall(f,...)) end\n\
    local function name(v) return type(v)=='table' and rawget(v,'id') or tostring(v) end\n\
    local kinds={}\n\
    for _,k in ipairs{'add','sub','mul','div','mod','pow','concat','unm','call','len'} do\n\
      kinds['__'..k]=function(a,b,c) return k..name(a)..name(b)..tostring(c) end\n\
    end\n\
    kinds.__lt=function(a,b) return name(a)<name(b) end\n\
    kinds.__eq=function(a,b) return name(a)==name(b) end\n\
    kinds.__index=function(t,k) return 'index'..tostring(k) end\n\
    kinds.__newindex=function(t,k,v) rawset(t,k,tostring(v)..'!') end\n\
    kinds.__tostring=function(t) return 'T'..t.id end\n\
    local function M(id) return setmetatable({id='m'..id},kinds) end\n";

impl Pieces {
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), depth: 0 }
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.random.usize(..list.len())]
    }

    fn value(&mut self) -> String {
        match self.random.usize(..9) {
            0..=3 => self.pick(&NUMBERS).to_owned(),
            4..=6 => self.pick(&TEXTS).to_owned(),
            _ => self.pick(&VALUES).to_owned(),
        }
    }

    fn values(&mut self, most: usize) -> String {
        let count = self.random.usize(..=most);
        (0..count).map(|_| self.value()).collect::<Vec<_>>().join(",")
    }

    fn expression(&mut self) -> String {
        self.depth += 1;
        let text = match if self.depth > 3 { 0 } else { self.random.usize(..8) } {
            0 | 1 => format!("({})", self.value()),
            2 | 3 => {
                let operator = self.pick(&OPERATORS);
                format!("{} {operator} {}", self.expression(), self.expression())
            }
            4 => format!("-{}", self.expression()),
            5 => format!("not {}", self.expression()),
            6 => format!("#{}", self.expression()),
            _ => format!("({} or {})", self.expression(), self.expression()),
        };
        self.depth -= 1;
        text
    }

    fn pattern(&mut self) -> String {
        let mut text = String::new();
        if self.random.u8(..4) == 0 {
            text.push('^');
        }
        for _ in 0..self.random.usize(1..6) {
            let atom = self.pick(&ATOMS_OF_PATTERNS);
            text.push_str(atom);
            text.push_str(self.pick(&SUFFIXES));
            if self.random.u8(..5) == 0 {
                text = format!("({text})");
            }
        }
        format!("[==[{text}]==]")
    }

    fn string_piece(&mut self) -> String {
        let text = match self.random.usize(..4) {
            0 => "ARGV[2]".to_owned(),
            _ => self.pick(&TEXTS).to_owned(),
        };
        let pattern = self.pattern();
        match self.random.usize(..7) {
            0 => format!("return string.find({text},{pattern},{})", self.pick(&NUMBERS)),
            1 => format!("return string.match({text},{pattern})"),
            2 => format!(
                "local t={{}} for a,b in string.gmatch({text},{pattern}) do \
                 t[#t+1]=tostring(a)..tostring(b) if #t>9 then break end end return unpack(t)"
            ),
            3 => format!(
                "return string.gsub({text},{pattern},{})",
                self.pick(&[
                    "'%0%0'",
                    "'%1'",
                    "'<%2>'",
                    "'%'",
                    "'%%'",
                    "'x%z'",
                    "{a='b',b=1,[1]=2}",
                    "{a={}}",
                    "function(a,b) return b end",
                    "function() return {} end",
                    "string.upper",
                    "'%9'",
                    "5"
                ])
            ),
            4 => format!("return string.gsub({text},{pattern},'-',{})", self.pick(&NUMBERS)),
            5 => format!("return string.find({text},{pattern},1,true)"),
            _ => format!(
                "return ({text}):{}({})",
                self.pick(&[
                    "sub", "byte", "upper", "lower", "reverse", "len", "format", "find", "x"
                ]),
                match self.random.usize(..3) {
                    0 => self.values(3),
                    _ => "1,3".to_owned(),
                }
            ),
        }
    }

    fn format_piece(&mut self) -> String {
        let mut format = String::from("'");
        for _ in 0..self.random.usize(1..4) {
            format.push_str(self.pick(&["", "x", " ", "%%"]));
            format.push('%');
            for _ in 0..self.random.usize(..3) {
                format.push_str(self.pick(&["-", "+", " ", "#", "0"]));
            }
            format.push_str(self.pick(&["", "", "1", "5", "12", "99", "100"]));
            format.push_str(self.pick(&["", "", ".", ".0", ".3", ".14", ".20", ".99", ".100"]));
            format.push_str(self.pick(&[
                "d", "i", "u", "c", "x", "X", "o", "e", "E", "f", "g", "G", "q", "s", "a", "y",
            ]));
        }
        format.push('\'');
        format!("return string.format({format},{})", {
            let mut all: Vec<_> = (0..self.random.usize(1..5)).map(|_| self.value()).collect();
            all.rotate_left(1);
            all.join(",")
        })
    }

    fn number_piece(&mut self) -> String {
        let (a, b) = (self.pick(&NUMBERS), self.pick(&NUMBERS));
        match self.random.usize(..6) {
            0 => format!("return tostring({a}),({a})..'',{a},{b}"),
            1 => format!("return ({a})+({b}),({a})-({b}),({a})*({b}),({a})/({b})"),
            2 => format!("return ({a})%({b}),({a})^({b}),-({a})^2,2^-({b})"),
            3 => format!("return ({a})<({b}),({a})<=({b}),({a})==({b}),({a})~=({b})"),
            4 => format!(
                "return tonumber({}),tonumber({},{})",
                self.value(),
                self.value(),
                self.pick(&["2", "8", "10", "16", "36", "37", "1"])
            ),
            _ => format!(
                "return math.{}({})",
                self.pick(&[
                    "floor", "ceil", "abs", "sqrt", "fmod", "modf", "max", "min", "frexp", "ldexp",
                    "log", "log10", "exp", "pow", "mod", "deg", "rad", "huge", "cosh"
                ]),
                self.values(2)
            ),
        }
    }

    fn table_piece(&mut self) -> String {
        let items = self.values(6);
        match self.random.usize(..9) {
            0 => format!(
                "local t={{{items}}} table.sort(t{}) return unpack(t)",
                self.pick(&[
                    "",
                    ",function(a,b) return a>b end",
                    ",function() return true end",
                    ",function() return false end",
                    ",function(a,b) return tostring(a)<tostring(b) end",
                    ",1",
                    ",function(a,b) error('sort') end",
                    ",function(a,b) return a end"
                ])
            ),
            1 => format!("local t={{{items}}} table.insert(t,{}) return #t,unpack(t)", {
                // Other places take billions of steps in both.
                let place = self.pick(&["1", "2", "-1", "9", "'2'", "nil", "1.5", "'x'"]);
                format!("{place},{}", self.values(2))
            }),
            2 => format!("local t={{{items}}} return table.remove(t,{}),#t", self.pick(&NUMBERS)),
            3 => format!("return table.concat({{{items}}},{})", self.values(3)),
            4 => format!(
                "return unpack({{{items}}},{})",
                self.pick(&["1", "2", "0", "1,3", "-1,1", "2,1", "1,1e8", "nil,2"])
            ),
            5 => format!(
                "local t={{{items}}} t[{}]={} return #t,t[1],next(t)",
                self.value(),
                self.value()
            ),
            6 => format!(
                "return select({},{items})",
                self.pick(&["1", "2", "'#'", "-1", "0", "-9", "9", "nil", "'x'"])
            )
            .replace(",)", ")"),
            7 => format!(
                "local t={{}} for i,v in ipairs({{{items}}}) do t[#t+1]=i end return unpack(t)"
            ),
            _ => format!(
                "return table.maxn({{{items}}}),table.getn({{{items}}}),rawequal({},{})",
                self.value(),
                self.value()
            ),
        }
    }

    fn meta_piece(&mut self) -> String {
        let (a, b) = (
            self.pick(&["M(1)", "M(2)", "1", "'x'", "{}", "nil"]),
            self.pick(&["M(1)", "M(2)", "2", "'y'", "{}"]),
        );
        let operator = self.pick(&OPERATORS);
        match self.random.usize(..7) {
            0..=2 => format!("return ({a}) {operator} ({b})"),
            3 => format!("return -({a}),#({b})"),
            4 => format!("local t={a} t.x={} return t.x,t.y,t[1]", self.value()),
            5 => format!("return ({a})({})", self.values(2)),
            _ => format!(
                "return {}",
                self.pick(&[
                    "tostring(M(1))",
                    "getmetatable(M(1)).__index(1,2)",
                    "getmetatable(setmetatable({},{__metatable='no'}))",
                    "setmetatable(setmetatable({},{__metatable=1}),{})",
                    "setmetatable({},{__index={x=1}}).x",
                    "setmetatable({},{__index=function(t,k) \
             return k end})[7]",
                    "setmetatable({},{__call=function(self,...) return select('#',...),... \
             end})(nil,nil)",
                    "setmetatable(1,{})",
                    "setmetatable({},1)",
                    "getmetatable('').__index==string",
                    "rawget(M(1),'zz'),rawset(M(2),'a',1).a",
                    "pcall(tostring,setmetatable({},\
             {__tostring=function() return 1 end}))",
                    "next({},1)",
                    "rawequal(M(1),M(1)),M(1)==M(1)",
                    "M(1)<1",
                    "{}<{}",
                    "1<'2'",
                    "{}..'x'"
                ])
            ),
        }
    }

    fn call_piece(&mut self) -> String {
        let values = self.values(4);
        match self.random.usize(..8) {
            0 => format!("local function f(...) return select('#',...),... end return f({values})"),
            1 => format!(
                "local function f(...) local a,b=... return b,a,arg and arg.n end return \
             f({values})"
            ),
            2 => format!(
                "local function f(a,b,...) return a,b,... end return f({values}),(f({values}))"
            ),
            3 => format!("return (function(...) return ... end)({values})"),
            4 => format!(
                "local t={{f=function(self,x) return x,type(self) end}} return t:f({})",
                self.value()
            ),
            5 => format!("local a,b,c=({values}) return a,b,c").replace("()", "(nil)"),
            6 => format!("return pcall(error,{})", self.value()),
            _ => format!(
                "return xpcall(function() error({}) end,{})",
                self.value(),
                self.pick(&["function(e) return type(e) end", "tostring", "error", "nil", "type"])
            ),
        }
    }

    fn error_piece(&mut self) -> String {
        let value = self.value();
        match self.random.usize(..12) {
            0 => format!("local up={value}\nreturn (function()\n return up.x.y end)()"),
            1 => format!("local t={{a={{}}}}\n\nt.a.b.c={value}"),
            2 => format!("local x={value}\nreturn x()"),
            3 => "return undefined_name".to_owned(),
            4 => "undefined_name=1".to_owned(),
            5 => format!("local s={value}\nreturn s:method()"),
            6 => format!("\n\nerror({value},{})", self.pick(&["0", "1", "2", "3", "nil", "'x'"])),
            7 => format!("local a,b={value},{}\nreturn a+b", self.value()),
            8 => format!("local a={value}\nreturn a..{}", self.value()),
            9 => format!("assert({value},{})", self.value()),
            10 => format!(
                "for i={},{},{} do if i then break end end",
                self.value(),
                self.pick(&NUMBERS),
                self.pick(&NUMBERS)
            ),
            _ => format!(
                "return {}({})",
                self.pick(&[
                    "math.floor",
                    "table.concat",
                    "ipairs",
                    "setmetatable",
                    "tonumber",
                    "string.char",
                    "select",
                    "unpack",
                    "string.byte",
                    "cjson.decode",
                    "bit.band"
                ]),
                self.values(3)
            ),
        }
    }

    fn loop_piece(&mut self) -> String {
        let (from, to, step) = (self.pick(&NUMBERS), self.pick(&NUMBERS), self.pick(&NUMBERS));
        match self.random.usize(..6) {
            0 | 1 => format!(
                "local n,t=0,{{}} for i={from},{to},{step} do n=n+1 t[n]=i if n>5 \
             then break end end return n,unpack(t)"
            ),
            2 => format!(
                "local f={{}} for i=1,3 do local j=i*{from} f[i]=function() j=j+1 return \
             i,j end end \
                return f[1](),f[1](),f[3]()"
            ),
            3 => "local n=0 repeat local done=n>2 n=n+1 until done return n".to_owned(),
            4 => "local t={} for k,v in next,{1,2,x=3} do t[#t+1]=tostring(k)..tostring(v) end \
             table.sort(t) return unpack(t)"
                .to_owned(),
            _ => format!(
                "local i=0 while i<{} do i=i+1 if i>4 then break end end return \
             i",
                self.pick(&NUMBERS)
            ),
        }
    }

    fn coroutine_piece(&mut self) -> String {
        let value = self.value();
        match self.random.usize(..9) {
            0 => format!(
                "local c=coroutine.create(function(a) local b=coroutine.yield(a) return \
             b,{value} end) \
                return show(coroutine.resume(c,1)),show(coroutine.resume(c,2)),\
             show(coroutine.resume(c)),coroutine.status(c)"
            ),
            1 => format!(
                "local f=coroutine.wrap(function(...) for i=1,2 do \
             coroutine.yield(i,...) end error({value}) end) \
                return show(f(7)),show(f()),show(pcall(f)),show(pcall(f))"
            ),
            2 => "return coroutine.yield(1)".to_owned(),
            3 => "local c=coroutine.create(function() return pcall(coroutine.yield,1) end) \
                return show(coroutine.resume(c)),show(coroutine.resume(c,5))"
                .to_owned(),
            4 => "local c c=coroutine.create(function() return coroutine.resume(c) end) return \
             coroutine.resume(c)"
                .to_owned(),
            5 => "local c=coroutine.wrap(function() table.sort({3,2,1},function(a,b) \
             coroutine.yield() return a<b end) end) return c()"
                .to_owned(),
            6 => "local c=coroutine.wrap(function() return setmetatable({},{__index=function(t,k) \
             return coroutine.yield(k) end}).x end) return c()"
                .to_owned(),
            7 => format!(
                "return \
             coroutine.{}({})",
                self.pick(&["create", "resume", "wrap", "status", "running"]),
                self.values(2)
            ),
            _ => "local c=coroutine.create(function() local d=coroutine.wrap(function() \
             coroutine.yield(1) error('in') end) d() d() end) \
                return show(coroutine.resume(c)),coroutine.status(c)"
                .to_owned(),
        }
    }

    fn deep_piece(&mut self) -> String {
        self.pick(&[
            "local function f(n) return 1+f(n+1) end return f(1)",
            "local function f() return f() end return type(f)",
            "local t={} t=setmetatable(t,{__index=function(t,k) return t[k+1] end}) return t[1]",
            "local t=setmetatable({},{}) getmetatable(t).__index=t return t.x",
            "local t=setmetatable({},{}) getmetatable(t).__newindex=t t.x=1",
            "local function f(n) if n==0 then return 0 end return 1+f(n-1) end return f(15000)",
            "local s='' for i=1,300 do s=s..'(' end return loadstring('return '..s)",
            "local s='return 1' for i=1,300 do s=s..'..1' end return loadstring(s)",
            "local s={} for i=1,201 do s[i]='local a'..i end return loadstring(table.concat(s,' \
             '))",
            "local s={} for i=1,61 do s[i]='a'..i end local l=table.concat(s,',') \
             return loadstring('local '..l..' return function() return '..l..' end')",
            "local t={} for i=1,300 do t[i]=i end return select('#',unpack(t))",
            "return string.rep('x',-1),string.rep('ab',3),#string.rep('',1e5)",
            "local function f(...) return select('#',...) end local t={} for i=1,7000 do t[i]=i \
             end return f(unpack(t))",
        ])
        .to_owned()
    }

    fn piece(&mut self) -> String {
        match self.random.usize(..22) {
            0..=3 => self.string_piece(),
            4 | 5 => self.format_piece(),
            6 | 7 => self.number_piece(),
            8 | 9 => self.table_piece(),
            10..=12 => self.meta_piece(),
            13 | 14 => self.call_piece(),
            15..=17 => self.error_piece(),
            18 => self.loop_piece(),
            19 => self.coroutine_piece(),
            20 => {
                if self.random.u8(..8) == 0 {
                    self.deep_piece()
                } else {
                    self.loop_piece()
                }
            }
            _ => format!("return {}", self.expression()),
        }
    }

    /// A program of some pieces; in some the last one is not protected.
    pub fn program(&mut self) -> String {
        let mut text = String::from(PRELUDE);
        for _ in 0..self.random.usize(4..10) {
            text.push_str(&format!("run(function() {} end)\n", self.piece()));
        }
        match self.random.usize(..4) {
            0 => text.push_str(&self.piece()),
            _ => text.push_str("return r"),
        }
        text
    }

    /// A source that is often wrong: a program with some changes.
    pub fn broken(&mut self) -> String {
        let mut text = match self.random.usize(..3) {
            0 => format!("{}\n", self.piece()),
            1 => format!("return function(a,...)\n {}\n end", self.piece()),
            _ => format!("local a,b={}\n {}", self.expression(), self.piece()),
        };
        for _ in 0..self.random.usize(1..4) {
            let places: Vec<usize> =
                text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let at = places[self.random.usize(..places.len())];
            match self.random.usize(..4) {
                0 | 1 => text.insert_str(at, self.pick(&TOKENS)),
                2 => {
                    let end = places[self.random.usize(..places.len())].clamp(at, at + 6);
                    if text.is_char_boundary(end) {
                        text.replace_range(at..end, "");
                    }
                }
                _ => text.truncate(at),
            }
        }
        text
    }
}

#[test]
fn texts_are_read_as_numbers_as_c_reads_them() {
    for (text, expected) in [
        ("'\\v10\\v', 2", "2"),
        ("'1\\11', 16", "1"),
        ("'11', 2^32+10", "11"),
        ("'-nan'", "-nan"),
        ("'nan'", "nan"),
        ("'nan(1_a)'", "nan"),
        ("'nan(1'", "nil"),
        ("'0x1p-1074'", "4.9406564584125e-324"),
        ("'0x1p-1075'", "0"),
        ("'-0x1.8p3'", "-12"),
        ("'0x1p1024'", "inf"),
        ("'0x0p99999999999999999999'", "0"),
        ("'0x1p-99999999999999999999'", "0"),
    ] {
        assert_eq!(answer(&format!("return tostring(tonumber({text}))")), format!("${expected}"));
    }
}

/// The frames of a coroutine that is left by a tail call are not those of its caller.
#[test]
fn tail_calls_that_change_the_coroutine_return_to_their_callers() {
    for (source, expected) in [
        (
            "(function() \
               local co = coroutine.create(function() return coroutine.yield(1) end) \
               coroutine.resume(co) \
               return 'inner' \
             end)() \
             return 'outer'",
            "$outer",
        ),
        (
            "local co = coroutine.create(function() return coroutine.yield(1) + 1 end) \
             local function f() return coroutine.resume(co) end \
             f() \
             local _, value = coroutine.resume(co, 2) \
             return value",
            ":3",
        ),
        (
            "local wrapped = coroutine.wrap(function(...) return coroutine.yield(...) end) \
             local function f(x) return wrapped(x) end \
             return {f(1), f(2)}",
            "[:1 :2]",
        ),
    ] {
        assert_eq!(answer(source), expected, "{source}");
    }
}

#[test]
fn degrees_are_divided_as_in_lua() {
    let source = "local t = {61, 122, 90} \
                  for i = 1, 3 do t[i] = math.floor(math.deg(math.rad(t[i]))) end return t";
    assert_eq!(answer(source), "[:60 :121 :90]");
}
