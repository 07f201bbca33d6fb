//! Table constructors: each kind of key beside items in order. The same tables are made by
//! assignments, which need no registers of a constructor.

use crate::harness::{Store, interpreter, run, shown};
use tidemill_script::Reply;

const PRELUDE: &str = "local a,b,n=nil,'b',3 \
    local function f(...) return ... end \
    local o={x='ox',f=f} \
    local function text(v) return type(v)=='table' and '{'..tostring(v[1])..'}' or tostring(v) end \
    local function show(t,k) \
        local out={} \
        for i=1,64 do out[i]=text(t[i]) end \
        return table.concat(out,' ')..' | '..(type(k)=='table' and '' or text(t[k])) \
    end ";

const KEYS: [&str; 34] = [
    "'lit'",
    "100",
    "true",
    "b",
    "n*100",
    "n+0.5",
    "-n",
    "not a",
    "n==3",
    "a or 'y'",
    "b and 'z'",
    "a and b or 'w'",
    "n<2 or 'v'",
    "b..'c'",
    "b..n..b",
    "#b..'x'",
    "tostring(1)",
    "f('k','l')",
    "(f('k'))",
    "f(f('m'))",
    "o.x",
    "o['x']",
    "o[b] or 'q'",
    "o.f('r')",
    "select(2,o:f('s'))",
    "b:upper()",
    "('t'):rep(n)",
    "({})",
    "{}",
    "({x='u'}).x",
    "(function() return 'fn' end)()",
    "... or 'dots'",
    "KEYS[1]:upper()",
    "redis.call('echo',ARGV[1] or 'd')",
];

const VALUES: [&str; 14] = [
    "1",
    "'v'",
    "nil",
    "b",
    "n>1",
    "a or 'or'",
    "a and b",
    "b..n",
    "o.x",
    "f('one','two')",
    "(f('one','two'))",
    "{n}",
    "{[b..'k']=1,2,3}",
    "...",
];

/// Items of a constructor, where `@` and `$` are a key and its value, and the assignments of its
/// items in order.
const LAYOUTS: [(&str, &str); 8] = [
    ("[@]=$", ""),
    ("[@]=$,10,20", "e[1]=10 e[2]=20"),
    ("10,[@]=$,20", "e[1]=10 e[2]=20"),
    ("10,20,[@]=$", "e[1]=10 e[2]=20"),
    ("[@]=$,f(10,20)", "e[1]=10 e[2]=20"),
    ("f(10,11),[@]=$;[b..'2']=f(5),f(20,30)", "e[1]=10 e[2]=20 e[3]=30"),
    ("[@]=$,x=f(1,2),[@]=$,'p'", "e[1]='p'"),
    ("{7},[@]=$,b..n,a or 8", "e[1]={7} e[2]='b3' e[3]=8"),
];

/// A script for each key and value. It answers the tables, made in both ways.
pub fn sources() -> Vec<String> {
    let items =
        |first: u32, last: u32| (first..=last).map(|index| format!("{index},")).collect::<String>();
    // More items than a constructor keeps in registers.
    let many = [&*items(1, 49), "[@]=$,", &items(50, 51), "[b..'9']=$,", &items(52, 60)].concat();
    let assignments = (1..=60).map(|index| format!("e[{index}]={index} ")).collect::<String>();
    let mut source = PRELUDE.to_owned() + "local made,assigned={},{} local k=@ ";
    for (items, assignments) in LAYOUTS.into_iter().chain([(&*many, &*assignments)]) {
        source += &format!(
            "do local c={{{items}}} made[#made+1]=show(c,k) \
             local e={{}} e[k]=$ {assignments} assigned[#assigned+1]=show(e,k) end "
        );
    }
    // The registers of a call around it.
    source += "made[#made+1]=select('#',{[@]=$}) assigned[#assigned+1]=1 \
        made[#made+1]=select('#',1,{[@]=$,[@]=$},3) assigned[#assigned+1]=3 \
        local e={} e[k]=$ made[#made+1]=text(({[@]=$})[k]) \
        assigned[#assigned+1]=text(e[type(k)~='table' and k]) return {made,assigned}";
    let with_value = |key: &str, value: &str| source.replace('@', key).replace('$', value);
    KEYS.iter().flat_map(|key| VALUES.iter().map(|value| with_value(key, value))).collect()
}

#[test]
fn constructors_make_what_assignments_make() {
    for source in sources() {
        let mut host = Store::default();
        let found = run(&mut interpreter(), &mut host, source.as_bytes(), &[b"key"], &[b"arg"]);
        let Ok(Reply::Array(tables)) = &found else { panic!("{source}\n{}", shown(&found)) };
        assert_eq!(tables[0], tables[1], "{source}");
    }
}
