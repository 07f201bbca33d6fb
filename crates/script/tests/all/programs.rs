//! Random programs: statements over a few variables, with every kind of value and operator.

/// Source of random programs.
pub struct Programs {
    random: fastrand::Rng,
    depth: usize,
    loops: usize,
}

const NAMES: [&str; 5] = ["a", "b", "c", "t", "s"];

const ATOMS: [&str; 24] = [
    "1",
    "0",
    "-1",
    "2.5",
    "1e15",
    "'10'",
    "'x'",
    "''",
    "nil",
    "true",
    "false",
    "{}",
    "{1,2,3}",
    "{x=1,y='z'}",
    "t.x",
    "t[1]",
    "#t",
    "#s",
    "s",
    "ARGV[1]",
    "KEYS[1]",
    "1e300",
    "-0.5",
    "7",
];

const OPERATORS: [&str; 15] =
    ["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"];

const CALLS: [&str; 44] = [
    "tostring(@)",
    "tonumber(@)",
    "tonumber(@,16)",
    "type(@)",
    "#(@)",
    "-(@)",
    "not @",
    "math.floor(@)",
    "math.max(@,@)",
    "math.fmod(@,@)",
    "math.abs(@)",
    "math.random(@)",
    "string.rep(@,3)",
    "string.sub(@,@)",
    "string.sub(@,@,@)",
    "string.upper(@)",
    "string.format('%5.1f|%d|%s',@,@,@)",
    "string.format('%g %x %q',@,@,@)",
    "string.byte(@)",
    "string.find(@,@)",
    "string.gsub(@,@,@)",
    "string.match(@,'(%w+)')",
    "string.len(@)",
    "string.reverse(@)",
    "select('#',@,@)",
    "select(2,@,@)",
    "unpack({@,@,@})",
    "table.concat({@,@},',')",
    "cjson.encode(@)",
    "cjson.encode({@,{k=@}})",
    "pcall(cjson.decode,@)",
    "cmsgpack.pack(@,@)",
    "pcall(cmsgpack.unpack,@)",
    "struct.pack('>I2i4',@,@)",
    "pcall(struct.unpack,'<hB',@)",
    "bit.band(@,@)",
    "bit.tohex(@)",
    "bit.lshift(@,@)",
    "pcall(function() return @ end)",
    "(function(...) return ... end)(@,@)",
    "redis.sha1hex(@)",
    "next({@,k=@})",
    "rawequal(@,@)",
    "redis.pcall('echo',@)",
];

impl Programs {
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), depth: 0, loops: 0 }
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.random.usize(..list.len())]
    }

    pub fn expression(&mut self) -> String {
        self.depth += 1;
        let kind = if self.depth > 4 { 0 } else { self.random.usize(..10) };
        let text = match kind {
            0..=2 => self.pick(&ATOMS).to_owned(),
            3 => self.pick(&NAMES).to_owned(),
            4..=6 => {
                let operator = self.pick(&OPERATORS);
                format!("({} {operator} {})", self.expression(), self.expression())
            }
            _ => {
                let mut text = String::new();
                for piece in self.pick(&CALLS).split_inclusive('@') {
                    match piece.strip_suffix('@') {
                        Some(begin) => {
                            text.push_str(begin);
                            text.push_str(&self.expression());
                        }
                        None => text.push_str(piece),
                    }
                }
                format!("({text})")
            }
        };
        self.depth -= 1;
        text
    }

    fn block(&mut self) -> String {
        let count = self.random.usize(1..3);
        (0..count).map(|_| self.statement()).collect()
    }

    fn statement(&mut self) -> String {
        self.depth += 1;
        let kind = if self.depth > 3 { 0 } else { self.random.usize(..12) };
        let text = match kind {
            0..=2 => format!("{}={} ", self.pick(&NAMES), self.expression()),
            3 => format!("t[{}]={} ", self.expression(), self.expression()),
            4 => format!("if {} then {}else {}end ", self.expression(), self.block(), self.block()),
            5 if self.loops < 2 => {
                self.loops += 1;
                let text = format!("for i=1,3 do r[#r+1]=i {}end ", self.block());
                self.loops -= 1;
                text
            }
            6 => format!("r[#r+1]=tostring({}) ", self.expression()),
            7 => format!(
                "r[#r+1]=tostring(select(2,pcall(function() {}return {} end))) ",
                self.block(),
                self.expression()
            ),
            8 => "if type(t)=='table' then for k,v in pairs(t) do r[#r+1]=type(k) end end ".into(),
            9 => format!(
                "local f=function(x,...) {}return x,{} end r[#r+1]=tostring((f({}))) ",
                self.block(),
                self.expression(),
                self.expression()
            ),
            10 => format!("local {}={} ", self.pick(&NAMES), self.expression()),
            _ => format!("a,b={},{} ", self.expression(), self.expression()),
        };
        self.depth -= 1;
        text
    }

    pub fn program(&mut self) -> String {
        let mut text = String::from("local r,a,b,c,t,s={},1,'q',nil,{5,6,x=7},'str' ");
        for _ in 0..self.random.usize(1..8) {
            text.push_str(&self.statement());
        }
        text.push_str("return r");
        text
    }
}
