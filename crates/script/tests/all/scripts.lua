x=1
----
return x
----
return {1,2,{3,'a'},nil,5}
----
return {true,false,1.9,-1.9,'x'}
----
return {ok='fine'}
----
return {err='My\nerror'}
----
return {double=3.5}
----
return {map={a=1}}
----
return {set={a=true}}
----
return {big_number='123'}
----
return {verbatim_string={string='x',format='txt'}}
----
return redis.error_reply('x')
----
return redis.error_reply('-MY x')
----
return redis.error_reply('-MY')
----
return redis.error_reply('--MY x')
----
return redis.error_reply('-A\nB')
----
return redis.error_reply('-')
----
error(redis.error_reply('-MY'))
----
error({err=5})
----
error({err=1.5})
----
error({err={}})
----
error({err=true})
----
return redis.error_reply('MY x y')
----
return redis.status_reply('x')
----
return redis.call('foo')
----
return redis.call('get')
----
return redis.pcall('foo')
----
return redis.call()
----
return redis.pcall().err
----
return redis.call({})
----
error('x')
----
error({err='My e'})
----
error({})
----
error()
----
error('x',0)
----
error('x',2)
----
local a={} a.b.c=1
----
local a={} a.b()
----
local a={} a:b()
----
local a=1; a.x=1
----
nofun()
----
local a='x' return a+1
----
local a={} return a+1
----
local a={b={}} return a.b..'x'
----
return #nil
----
local t = nil return t[1]
----
return {} < {}
----
return 1 < 'x'
----
return {} .. {}
----
return -{}
----
for i='a',2 do end
----
for i=1,'x' do end
----
for i=1,2,{} do end
----
x y
----
return return
----
local x = = 1
----
x = 'abc
----
x = [[abc
----
x = "\400"
----
for i=1 do end
----
if x then
----
function
----
goto x
----
return 0x
----
return 1..2
----
return 3..'x'
----
break
----
local t = {1,2
----
f(
----
a.b:c = 1
----
return ...
----
return {...}
----
local function f() return ... end
----
return select('#', ...)
----
redis.x=1
----
KEYS[3]='x' return #KEYS
----
return {KEYS[1],ARGV[1],#KEYS,#ARGV}
----
string.x=1
----
getmetatable('').__index = 1
----
rawset(redis,'x',1)
----
setmetatable(_G, {})
----
return tostring(getmetatable(_G)) ~= nil
----
_G.x = 1
----
return type(getmetatable(_G).__index)
----
return pcall(function() x = 1 end)
----
return {pcall(function() local t={} t.x.y=1 end)}
----
return {pcall(error,'x')}
----
return {pcall(error,{1,2})}
----
return {pcall(error)}
----
return {pcall(pcall)}
----
return {pcall(pcall,error,'x')}
----
return {pcall(string.rep)}
----
return {pcall(string.rep,'x')}
----
return {pcall(function() string.rep() end)}
----
return {pcall(function() local s='x' return s:rep({}) end)}
----
return {pcall(function() local s='x' return s.rep() end)}
----
return {xpcall(function() error('a') end, function(e) return e..'!' end)}
----
return {xpcall(function() local x = nil + 1 end, function(e) return {e} end)}
----
return {xpcall(function() return 1,2,3 end, print)}
----
return {select(2,'a','b','c')}
----
return {select(-1,'a','b','c')}
----
return {pcall(select,0)}
----
return {select('#',nil,nil)}
----
return {unpack({1,2,3},2)}
----
return {unpack({1,2,3},2,5)}
----
return {pcall(unpack,{},1,1e8)}
----
return {pcall(unpack,{},0,2147483647)}
----
return {pcall(unpack,{},-2147483648,2147483647)}
----
return {tostring(1e15),tostring(1e14),tostring(123456789012345),tostring(0.1),tostring(1/3),tostring(-0),tostring(1e100),tostring(2^53),tostring(2^63),tostring(1/0),tostring(-1/0),tostring(100),tostring(1e-5),tostring(12345.678)}
----
return {tostring(nil),tostring(true),tostring('x'),tostring(cjson.null)}
----
return {tonumber('10'),tonumber('0x10'),tonumber(' 10 '),tonumber('10a'),tonumber('1e1'),tonumber(''),tonumber('z',36),tonumber('ff',16),tonumber('8',8),tonumber('-ff',16),tonumber('1e'),tonumber('.5'),tonumber('5.'),tonumber('.')}
----
return {pcall(tonumber)}
----
return {pcall(tonumber,'1',1)}
----
return {tostring(tonumber('inf')),tostring(tonumber('nan')),tostring(tonumber('0x1p4')),tostring(tonumber('1_0'))}
----
return {type(1),type('x'),type(nil),type({}),type(print==nil),type(type),type(cjson.null)}
----
return {pcall(type)}
----
local t={} for i=1,10 do t[i]=i end t[5]=nil return #t
----
local t={1,2,nil,4} return #t
----
local t={nil,nil,3} return #t
----
local t={1,2,3,nil,5,nil} return #t
----
local t={n=1,1,2} return {#t,table.getn(t),table.maxn(t)}
----
local t={} t[1]=1 t[2]=2 t[4]=4 return #t
----
local t={} for i=1,100 do t[i]=i end for i=60,100 do t[i]=nil end return #t
----
local r={} for k,v in pairs({a=1,b=2,c=3,d=4,e=5,10,20,30}) do r[#r+1]=tostring(k)..'='..tostring(v) end return r
----
local t={} for i=1,50 do t['k'..i]=i end local r={} for k in pairs(t) do r[#r+1]=k end return r
----
local t={} for i=1,50 do t[i*3.7]=i end local r={} for k in pairs(t) do r[#r+1]=tostring(k) end return r
----
local t={} for i=-20,20 do t[i]=i end local r={} for k in pairs(t) do r[#r+1]=tostring(k) end return r
----
local t={} for i=1,30 do t['k'..i]=i end for i=1,30,2 do t['k'..i]=nil end for i=31,40 do t['k'..i]=i end local r={} for k in pairs(t) do r[#r+1]=k end return r
----
local t={[true]=1,[false]=2,[1]=3,[1.5]=4} local r={} for k in pairs(t) do r[#r+1]=tostring(k) end return r
----
local t={} for i=1,20 do t[string.rep('abcdefgh',10)..i]=i end local r={} for k,v in pairs(t) do r[#r+1]=v end return r
----
local t={} for i=1,10 do t[#t+1]=i end for k in pairs(t) do t[k]=nil end return next(t)
----
return {next({},nil)}
----
return {pcall(next,{},'x')}
----
return {next({10,20},1)}
----
local r={} for k in pairs(string) do r[#r+1]=k end table.sort(r) return r
----
local r={} for k in pairs(math) do r[#r+1]=k end table.sort(r) return r
----
local r={} for k in pairs(table) do r[#r+1]=k end table.sort(r) return r
----
local r={} for k in pairs(redis) do r[#r+1]=k end table.sort(r) return r
----
local r={} for k in pairs(cjson) do r[#r+1]=k end table.sort(r) return r
----
local r={} for k in pairs(_G) do r[#r+1]=k end table.sort(r) return r
----
local t={3,1,2} table.sort(t) return t
----
local t={5,3,8,1,9,2} table.sort(t,function(a,b) return a>b end) return t
----
local t={} for i=1,40 do t[i]={k=i%4,i=i} end table.sort(t,function(a,b) return a.k<b.k end) local r={} for i,v in ipairs(t) do r[i]=v.i end return r
----
return {pcall(table.sort,{3,'a',1})}
----
return {pcall(function() table.sort({3,1,2,5,4,7,6,9,8},function(a,b) return true end) end)}
----
local t={1,2,3} table.insert(t,4) table.insert(t,1,0) return t
----
local t={1,2,3} return {table.remove(t),table.remove(t,1),#t,table.remove({})}
----
return {pcall(table.insert,{1},1,2,3)}
----
return {pcall(table.insert,{})}
----
return {pcall(table.concat,{1,{},3})}
----
return {table.concat({1,2,3},','),table.concat({1,2,3},',',2),table.concat({},'x'),table.concat({'a','b'},'-',1,1)}
----
local r={} table.foreach({a=1},function(k,v) r[#r+1]=k..v end) table.foreachi({5,6},function(k,v) r[#r+1]=k..'='..v end) return r
----
return {pcall(table.setn,{},1)}
----
return {('x'):rep(3),('abc'):sub(2),('abc'):sub(-2,-1),('abc'):sub(0),('abc'):sub(3,2),('abc'):upper(),('ABC'):lower(),('abc'):reverse(),('abc'):len(),#'abc'}
----
return {('abc'):byte(1,-1)}
----
return {('abc'):byte(10),string.char(65,66),pcall(string.char,256)}
----
return {('hello world'):find('wor'),('hello'):find('l+'),('hello'):find('xyz'),('a.b'):find('.',1,true),('hello'):find('l',-2),('hello'):find('')}
----
return {('hello'):match('h(.)l'),('key=val'):match('(%w+)=(%w+)'),('  x '):match('^%s*(.-)%s*$'),('abc'):match('()b()')}
----
return {('hello'):gsub('l','L'),('hello'):gsub('l','L',1),('abc'):gsub('%w','%0%0'),('abc'):gsub('','-'),('hello world'):gsub('(%w+)','<%1>')}
----
return {('abc'):gsub('%w',{a='1',b=true}),('abc'):gsub('%w',function(c) if c=='b' then return 'X' end end)}
----
return {pcall(string.gsub,'abc','%w','%2')}
----
return {pcall(string.gsub,'abc','(','x')}
----
return {pcall(string.gsub,'abc','[','x')}
----
return {pcall(string.gsub,'abc','%','x')}
----
return {pcall(string.gsub,'abc','a',nil)}
----
return {pcall(string.gsub,'abc','a',function() return {} end)}
----
return {pcall(string.find,'abc','%f')}
----
return {('THE (quick) fox'):find('%((%a+)%)'),('f(a(b)c)d'):match('%b()'),('THE quick'):gsub('%f[%a]%a+','X')}
----
local r={} for w in ('one two three'):gmatch('%a+') do r[#r+1]=w end return r
----
local r={} for k,v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do r[#r+1]=k..v end return r
----
return {('x\0y'):len(),('x\0y'):find('%z'),('[]]'):find('[]]'),('a-b'):find('[a%-]',2),('^x'):find('^^')}
----
return {string.format('%d %5d %-5d| %05d %+d',1,2,3,4,5),string.format('%s %10s %-10s|','a','b','c'),string.format('%q','a"b\c\nd\0'),string.format('%x %X %#x %o',255,255,255,8),string.format('%5.1f %.3f %e %g',1.25,2,3,0.0001),string.format('%c%c',72,105),string.format('%%'),string.format('%i',3.9),string.format('%.3s','abcdef')}
----
return {string.format('%g %g %g %g',1e20,1e-10,123456789,0.1),string.format('%.14g',2^53),string.format('%.0f',0.5),string.format('%.20f',0.1),string.format('%5s%%','x'),string.format('%u',-1)}
----
return {pcall(string.format,'%y',1)}
----
return {pcall(string.format,'%d','x')}
----
return {pcall(string.format,'%s')}
----
return {pcall(string.format,'%s',{})}
----
return {pcall(string.format,'%0000000d',1)}
----
return {pcall(string.format,'%123d',1)}
----
return {pcall(string.format,'%')}
----
return {math.floor(1.5),math.ceil(1.5),math.abs(-1),math.max(1,5,3),math.min(4,2),math.fmod(7,3),math.sqrt(16),math.pow(2,3),math.mod(7,3)}
----
return {tostring(math.pi),tostring(math.huge),tostring(math.sin(1)),tostring(math.log(10)),tostring(math.exp(1)),tostring(math.log10(1000)),tostring(math.atan2(1,2)),tostring(math.deg(1)),tostring(math.rad(90)),tostring(math.tanh(0.5)),tostring(math.cosh(1))}
----
return {tostring(math.frexp(10)),tostring(select(2,math.frexp(10))),tostring(math.ldexp(0.5,4)),tostring(math.modf(3.7)),tostring(select(2,math.modf(-3.7)))}
----
return {tostring(math.random()),tostring(math.random()),math.random(10),math.random(5,8),pcall(math.random,0)}
----
math.randomseed(42) return {tostring(math.random()),math.random(100),math.random(-5,5)}
----
math.randomseed(-7) return {tostring(math.random()),math.random(1000000)}
----
return {5%3,-5%3,5%-3,tostring(5%0),2^10,7/2,tostring(1/0),tostring(-7/2),tostring(5.5%2)}
----
return {1==1.0,'1'==1,'a'<'b','a'<'B','Z'<'a',not nil,nil==false}
----
return {'10'+5,'3'*'4',10 ..20,'0x10'+0,-'2'}
----
return 2^-1 .. ''
----
return {1 and 2,nil and 1,false or 'x',nil or false,1 or error('x')}
----
local a,b,c=(function() return 1,2,3 end)() return {a,b,c}
----
local a,b=((function() return 1,2 end)()) return {a,b}
----
local function f(...) return select('#',...),... end return {f(1,nil,3)}
----
local function f(...) return arg.n,arg[1] end return {f(7,8)}
----
local function f(a,...) return #arg end return f(1,2,3)
----
local function f(...) local x={...} return #x,type(arg) end return {pcall(f,1,2)}
----
local function fact(n) if n<=1 then return 1 end return n*fact(n-1) end return fact(10)
----
local function loop(n) if n==0 then return 'done' end return loop(n-1) end return loop(100000)
----
local function f() return f() + 1 end return f()
----
local function f(n) return n==0 and 0 or 1+f(n-1) end return f(15000)
----
local t=setmetatable({},{__index=function(t,k) return k..'!' end}) return t.x
----
local t=setmetatable({},{__index={a=1}}) return t.a
----
local t=setmetatable({},{__newindex=function(t,k,v) rawset(t,k,v*2) end}) t.x=5 return t.x
----
local t=setmetatable({},{__call=function(self,a,b) return a+b end}) return t(1,2)
----
local mt={__add=function(a,b) return 'add' end,__concat=function() return 'cat' end,__eq=function() return true end,__lt=function() return true end,__le=function() return false end,__unm=function() return 'neg' end,__len=function() return 42 end,__tostring=function() return 'T' end} local a,b=setmetatable({},mt),setmetatable({},mt) return {a+1,1+a,a..'x','x'..a,a==b,a<b,a<=b,-a,#a,tostring(a)}
----
local t=setmetatable({},{__metatable='locked'}) return {getmetatable(t),pcall(setmetatable,t,{})}
----
local t={} t=setmetatable(t,{__index=t}) return {pcall(function() return t.x end)}
----
local co=coroutine.create(function(a,b) local c=coroutine.yield(a+b) local d=coroutine.yield(c*2) return d,'end' end) return {coroutine.resume(co,1,2),coroutine.resume(co,10),coroutine.resume(co,'x'),coroutine.resume(co),coroutine.status(co)}
----
local f=coroutine.wrap(function() for i=1,3 do coroutine.yield(i) end end) return {f(),f(),f(),tostring(f())}
----
local f=coroutine.wrap(function() error('oops') end) return {pcall(f)}
----
local f=coroutine.wrap(function() error({err='oops'}) end) f()
----
local co=coroutine.create(function() local x=nil; x.y=1 end) return {coroutine.resume(co)}
----
return {pcall(coroutine.yield,1)}
----
coroutine.yield(1)
----
local co co=coroutine.create(function() return coroutine.resume(co) end) return {coroutine.resume(co)}
----
local co=coroutine.create(function() return pcall(coroutine.yield,1) end) return {coroutine.resume(co)}
----
local co=coroutine.create(function() table.sort({3,2,1},function() coroutine.yield() end) end) return {coroutine.resume(co)}
----
return {pcall(coroutine.create,1)}
----
return {tostring(coroutine.running())}
----
local f=loadstring('return 1+1') return f()
----
return {loadstring('x y')}
----
return {loadstring('return ...','=name')}
----
return {pcall(loadstring('local x = nil; x.y=1'))}
----
return {pcall(loadstring('error("x")','@chunk'))}
----
return {load(function() return nil end)}
----
local n=0 local f=load(function() n=n+1 return ({'return ','4','2'})[n] end) return f()
----
return {loadstring('\27Lua')}
----
return cjson.encode({1,2,3,{a='b'},true,false,cjson.null,'x/y\n'})
----
return {cjson.encode({}),cjson.encode({{}}),cjson.encode({[1]=1,[2]=2}),cjson.encode('x'),cjson.encode(1.5),cjson.encode(1e20),cjson.encode(2^53)}
----
return {pcall(cjson.encode,{[1]=1,[100]=2})}
----
return {pcall(cjson.encode,{[true]=1})}
----
return {pcall(cjson.encode,{f=type})}
----
return {pcall(cjson.encode)}
----
return {pcall(cjson.encode,1,2)}
----
return {pcall(cjson.encode,1/0)}
----
local t={} t.t=t return {pcall(cjson.encode,t)}
----
return {cjson.encode({a=1,b=2,c=3,d=4,e=5})}
----
return cjson.encode({[1]='a',x='b',[2.5]='c'})
----
local d=cjson.decode('{"a":[1,2,{"b":null}],"c":"x\u00e9\n","d":1.5e3,"e":true}') return {d.a[1],d.a[3].b==cjson.null,d.c,d.d,d.e}
----
return {cjson.decode('"\ud83d\ude00"'),cjson.decode('[]')[1],cjson.decode(' 1 ')}
----
return {pcall(cjson.decode,'{')}
----
return {pcall(cjson.decode,'[1,]')}
----
return {pcall(cjson.decode,'{"a"}')}
----
return {pcall(cjson.decode,'{"a":}')}
----
return {pcall(cjson.decode,'[1 2]')}
----
return {pcall(cjson.decode,'nul')}
----
return {pcall(cjson.decode,'"abc')}
----
return {pcall(cjson.decode,'"\x"')}
----
return {pcall(cjson.decode,'"\ud800"')}
----
return {pcall(cjson.decode,'')}
----
return {pcall(cjson.decode,'1 2')}
----
return {pcall(cjson.decode,string.rep('[',1001)..string.rep(']',1001))}
----
return #cjson.encode(cjson.decode(string.rep('[',1000)..string.rep(']',1000)))
----
return {tostring(cjson.decode('nan')),tostring(cjson.decode('0x10')),tostring(cjson.decode('-inf')),pcall(cjson.decode,'+1')}
----
local j=cjson.new() j.encode_invalid_numbers('null') return {j.encode({1/0})}
----
cjson.encode_sparse_array(true) local r=cjson.encode({[1]=1,[100]=2}) cjson.encode_sparse_array(false) return r
----
cjson.encode_number_precision(3) local r=cjson.encode(1/3) cjson.encode_number_precision(14) return r
----
return {pcall(cjson.encode_number_precision,17)}
----
return {pcall(cjson.encode_max_depth,0)}
----
return {pcall(cjson.encode_keep_buffer,'x')}
----
return {cjson.encode_sparse_array()}
----
return {cjson.decode_max_depth(),cjson.encode_max_depth(),cjson.encode_number_precision(),cjson.encode_keep_buffer(),cjson.decode_invalid_numbers()}
----
return {cmsgpack.pack({1,2,3}),cmsgpack.pack({a=1}),cmsgpack.pack(nil,true,false,1.5,'x',-1,-200,70000,2^40,-2^40,0.1)}
----
return {cmsgpack.unpack(cmsgpack.pack({1,'a',{b=2}},'x',5))}
----
return cmsgpack.unpack(cmsgpack.pack({1,'a',{2,3}}))
----
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3)),cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2),cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),1,1)}
----
return {pcall(cmsgpack.pack)}
----
return {pcall(cmsgpack.unpack,'\193')}
----
return {pcall(cmsgpack.unpack,'\220\255')}
----
return {pcall(cmsgpack.unpack_limit,'abc',1,10)}
----
return {pcall(cmsgpack.unpack_one,'abc',-1)}
----
local x={} for i=1,20 do x={x} end return #cmsgpack.pack(x)
----
return {cmsgpack.pack({[1]=1,[3]=3}),cmsgpack.pack({}),cmsgpack.pack(type)}
----
return {struct.pack('>I2i4s','1000',-5,'hey'),struct.pack('<d f',1.5,2.5),struct.pack('!4bi',1,2),struct.pack('c3','abcdef'),struct.pack('Bbx',255,-1)}
----
return {struct.unpack('>I2i4s',struct.pack('>I2i4s',1000,-5,'hey'))}
----
return {struct.unpack('Bc0',struct.pack('Bc0',3,'abc'))}
----
return {struct.size('!8bd'),struct.size('i3'),struct.size('>lLT'),pcall(struct.size,'s')}
----
return {pcall(struct.pack,'i33',1)}
----
return {pcall(struct.pack,'i99999999999',1)}
----
return {pcall(struct.pack,'y',1)}
----
return {pcall(struct.pack,'!3i',1)}
----
return {pcall(struct.pack,'c5','abc')}
----
return {pcall(struct.unpack,'i','abc')}
----
return {pcall(struct.unpack,'s','abc')}
----
return {pcall(struct.unpack,'c0','abc')}
----
return {pcall(struct.unpack,'i','abcd',-1)}
----
return {struct.unpack('i16',struct.pack('i16',-3)),struct.unpack('I8',struct.pack('I8',2^60))}
----
return {bit.band(0xff,0x0f),bit.bor(1,2,4),bit.bxor(5,3),bit.bnot(0),bit.lshift(1,31),bit.rshift(-1,28),bit.arshift(-16,2),bit.rol(0x12345678,8),bit.ror(0x12345678,8),bit.bswap(0x12345678),bit.tobit(2^32+5),bit.tobit(-1.5)}
----
return {bit.tohex(255),bit.tohex(255,4),bit.tohex(255,-4),bit.tohex(-1,0),bit.tohex(1,100),bit.tohex(1,-2147483648)}
----
return {pcall(bit.band)}
----
return {pcall(bit.band,'x')}
----
return {redis.sha1hex(''),redis.sha1hex('abc'),redis.sha1hex(1)}
----
return {pcall(redis.sha1hex)}
----
return {redis.LOG_DEBUG,redis.LOG_WARNING,redis.REPL_ALL,redis.REDIS_VERSION,redis.REDIS_VERSION_NUM,redis.VALKEY_VERSION,redis.SERVER_NAME}
----
redis.log(9,'x')
----
redis.setresp(4)
----
redis.set_repl(9)
----
return redis.acl_check_cmd('get','x')
----
redis.acl_check_cmd('nope')
----
return {redis.call('set','a','1'),redis.call('get','a'),redis.call('get','nope'),redis.call('incrby','a',5),redis.call('mget','a','nope')}
----
redis.setresp(3) return {redis.call('get','nope')==nil,true,false}
----
return {pcall(redis.call,'incrby','key',{})}
----
redis.call('set','a','x') redis.call('incrby','a',1)
----
local e=redis.pcall('nope') return e.err
----
local ok,e=pcall(redis.call,'nope') return {ok,type(e),e.err}
----
return {redis.call('echo',0.1),redis.call('echo',1e22),redis.call('echo',1/3),redis.call('echo',-1e-7),redis.call('echo',123456789012),redis.call('echo',1e15),redis.call('echo',1e300),redis.call('echo',1.5e16),redis.call('echo',0.00001234),redis.call('echo',0.001),redis.call('echo',-2.5e-3),redis.call('echo',1e21),redis.call('echo',1.5e20),redis.call('echo',123456.789e10)}
----
return {assert(1,2)}
----
return {pcall(assert,false)}
----
return {pcall(assert,nil,'msg')}
----
return {pcall(assert)}
----
assert(false,'boom')
----
return {collectgarbage('collect'),type(collectgarbage('count')),pcall(collectgarbage,'x')}
----
return {pcall(setmetatable,1,{})}
----
return {pcall(setmetatable,{},1)}
----
return {pcall(setmetatable,{})}
----
return {rawequal('a','a'),rawget({a=1},'a'),rawset({},'a',1).a}
----
return {pcall(rawset,{},nil,1)}
----
local t={} t[nil]=1
----
local t={} t[0/0]=1
----
return {#'x', -(-2), not 1, 2^2^3, -2^2, 1 .. 2 == '12', 'a'..'b'..'c'..1}
----
local i=0 while true do i=i+1 if i>10 then break end end return i
----
local i=0 repeat local j=i i=i+1 until j>=5 return i
----
local s=0 for i=10,1,-2 do s=s+i end return s
----
local s=0 for i=1,0 do s=1 end return s
----
local s='' for i=1,2,0.25 do s=s..i..',' end return s
----
local fs={} for i=1,3 do fs[i]=function() i=i+1 return i end end return {fs[1](),fs[1](),fs[2]()}
----
local function counter() local n=0 return function() n=n+1 return n end end local a,b=counter(),counter() return {a(),a(),b()}
----
local t={} function t.f(x) return x end function t:g() return self==t end return {t.f(1),t:g()}
----
local a <const> = 1
----
return 'a\z  b'
----
return '\x41'
----
return "\065\10\a"
----
-- comment
--[[ long ]] return 1 --[==[ x ]==]
----
return [==[ a]]b ]==]
----
return [[
x]]
----
return 0xff + 1e2 + .5
----
local x;;
----
;
----
return 1;
----
do local a=1 end return a
----
local a=1 do local a=2 end return a
----
return (nil)
----
return #{n=1}, 2
----
return {f=1,[2]=2,3;4}
----
if nil then return 1 elseif false then return 2 else return 3 end
----
local a={1,2,3} a[1],a[2]=a[2],a[1] return a
----
local i=1 local a={} i,a[i]=2,'x' return {i,a[1],tostring(a[2])}
----
return tostring(1e308*10)..tostring(-(0/0))
----
local s='' for k,v in ipairs({1,2,nil,4}) do s=s..v end return s
----
for k,v in pairs(nil) do end
----
for k in 5 do end
----
for k in nil do end
----
return string.rep('x',10,'y')
----
return #string.rep('abc',100000)
----
return {string.find('abc','b',nil,true),string.find('a\nb','\n'),('x'):find('x',5),('x'):find('',2),('x'):find('',3)}
----
return ('%d'):format(3.7)
----
return {os.clock()>0,type(os.clock)}
----
os.time()
----
print('x')
----
dofile('x')
----
return tostring(require)
----
return debug
----
return loadfile
----
return {tostring(2^31),tostring(2^31+0.5),tostring(-2^31),2^31|0}
----
local f=function(a,b,c) return a,b,c end return {f(1,2),(f(1,2,3))}
----
return #arg
----
local t={10,20,30,nil} t[#t+1]=40 return t
----
return {table.concat({1.5,2,'x'}),tostring({})==tostring({})}
----
local a='local' return a.foo
----
local s='abc' return s.x.y
----
return ('x').y.z
----
return (function() error({code=5}) end)()
----
local ok,e=pcall(function() error({code=5}) end) return e.code
----
local ok,e=pcall(function() error(setmetatable({},{__tostring=function() return 'custom' end})) end) return tostring(e)
----
error(setmetatable({},{__tostring=function() return 'custom' end}))
----
error(nil)
----
error(5)
----
error(true)
----
local function a() error('deep') end local function b() a() end b()
----
local function lvl() error('lvl2',2) end lvl()
----
return pcall(function() error('x',3) end)
----
local t=setmetatable({},{__index=function(t,k) error('idx '..k) end}) return t.foo
----
local t=setmetatable({},{__add=function(a,b) return a.x.y end}) return t+1

----
return {tostring(math.log(-7)),tostring(math.log10(-7)),tostring(math.sqrt(-1)),tostring(math.acos(2)),tostring(math.asin(2)),tostring(math.pow(-8,1/3)),tostring((-8)^(1/3)),tostring(math.fmod(1,0)),tostring(math.sin(1/0)),tostring(math.cos(1/0)),tostring(math.tan(1/0)),tostring(math.log(-1/0)),tostring(math.fmod(1/0,2))}
----
return {tostring(0/0),tostring(-(0/0)),tostring(math.log(0/0)),tostring(math.log(-(0/0))),tostring(1/0-1/0),tostring(0*(1/0)),tostring(math.huge%2),tostring(5%0),tostring(math.abs(0/0)),tostring(math.max(0/0,1)),tostring(math.min(1,0/0)),tostring(math.floor(0/0)),tostring(math.exp(-(0/0))),tostring(math.cosh(1/0)),tostring(math.tanh(-1/0)),tostring(math.atan2(-0,-1)),tostring(math.frexp(0/0)),tostring(math.ldexp(1,5000))}
----
return {tostring(math.modf(-0)),tostring(select(2,math.modf(-0))),tostring(select(2,math.modf(1/0))),tostring(select(2,math.modf(-1/0))),tostring(select(2,math.modf(-3))),tostring(math.modf(0/0)),tostring(select(2,math.modf(0/0)))}
----
return {tostring(tonumber('10\0x')),tostring(tonumber('z\0',36)),tostring(tonumber('\0',36)),tostring(tonumber(' \0',10))}
----
return {[[ a [[ b ]], #[==[ [[ ]==]} --[[ c [[ d ]]
----
return {select('#',pcall(error,{1})),select('#',pcall(error,{err=5})),pcall(error,{err={}})}
----
return {pcall(error,setmetatable({},{__index=function() return 'member' end}))}
----
return {pcall(pcall,error,setmetatable({},{__index=function() error('inner') end}))}
----
return {string.gsub('aaa','a','b',2^53),string.gsub('aaa','a','b',-1),string.gsub('aaa','a','b',2^32+1)}
----
return {string.format('%c%c%5c|',0,65,0),#string.format('%-5c',0),string.format('%c',2^63),string.format('%c',321)}
----
local s={} for i=1,201 do s[i]='local a'..i end return {loadstring(table.concat(s,' '))}
----
return {loadstring('x=','='..string.rep('n',100)),loadstring('x=','@'..string.rep('n',100)),loadstring('x=',string.rep('n',100))}
----
return {pcall(loadstring('error(1)',string.rep('n',100))),pcall(loadstring('error(1)','@'..string.rep('n',100)))}
----
return {#{0/0,'abc',{},nil,true,(function() return 1 end)()},#{1,nil,unpack({1,nil,3})},#{n=1,nil,nil,unpack({1,2},1,3)}}
----
return {pcall(coroutine.create,type),pcall(coroutine.wrap,redis.call),pcall(bit.band,1,{},false),pcall(bit.band,{},false)}
----
error('a\0b')
----
error({err='a\0b'})
----
return {pcall(function() return 'x'<coroutine.create(function() end) end),pcall(select,2^31,1),select(2^32+1,7)}
----
return {loadstring("x 'a\\n\\065b'"),loadstring("x [==[\na]]\r\nb]==]"),loadstring('x "\\0z"')}
----
return {struct.pack('>I2i4',1e300,1e15),struct.pack('>I8',0/0),struct.pack('>I8',-1),struct.pack('>i8',2^63),struct.pack('>I8',2^64)}
----
local t=setmetatable({},{__index=function(t,k) 
error('two',2) end})
local function g() 
return t.x end
local r={}
r[1]=tostring(select(2,pcall(g)))
local t=setmetatable({},{__index=function(t,k) 
error('three',3) end})
local function g() 
local x = t.x return x end
local function h() 
local x = g() return x end
r[2]=tostring(select(2,pcall(h)))
r[3]=tostring(select(2,pcall(string.gsub,'x','x',function() error('a',2) end)))
r[4]=tostring(select(2,pcall(function() 
return (string.gsub('x','x',function() error('a',3) end)) end)))
r[5]=tostring(select(2,pcall(function() 
return (string.gsub('x','x',error)) end)))
r[6]=tostring(select(2,pcall(function() local x = 
string.gsub('x','x',setmetatable({},{__index=function() error('q',2) end})) end)))
r[7]=tostring(select(2,pcall(function() local x=setmetatable({},{__index=function() error('p',2) end}) local y =
x.x end)))
r[8]=tostring(select(2,pcall(function() local x=setmetatable({},{__index=error}) local y =
x.x end)))
return r
----
local t={a=1,b=2,c=3} local c=0 for k,v in pairs(t) do t[k]=nil c=c+1 t['x'..c]=1 t['x'..c]=nil t['y'..c]=1 if c>50 then break end end return c
----
local t={a=1,b=2,c=3} local c=0 return {pcall(table.foreach,t,function(k) t[k]=nil c=c+1 t['x'..c]=1 t['x'..c]=nil t['y'..c]=1 if c>50 then return c end end)}
----
return {pcall(function() for k,v in next,{},5 do end end)}
----
for k,v in next,{},5 do end
----
local t=setmetatable({},{__newindex=function() end}) t[nil]=1 return 'ok'
----
local t=setmetatable({},{__newindex=function() end}) t[0/0]=1 return 'ok'
----
local t=setmetatable({},{__newindex={}}) return {pcall(function() t[nil]=1 end)}
----
return {string.match('axx','a\0b'),string.gsub('abc','b\0','X')}
----
return {pcall(string.match,'b','[b\0]')}
----
return {pcall(string.match,'b','%b\0a')}
----
return {pcall(string.match,'b','%\0')}
----
return {pcall(string.match,'b','(b\0)')}
----
return {string.find('a\0b','a\0b'),string.find('a\0b.','\0b.'),string.find('xa\0b','a\0b',1,true),string.find('ab','^\0')}
----
local o={} for a in string.gmatch('abab','a\0b') do o[#o+1]=a end return o
----
return {pcall(cmsgpack.unpack,'\196\1a')}
----
return {pcall(cmsgpack.unpack,'\197\0\1a')}
----
return {tostring(cmsgpack.unpack('\207'..('\255'):rep(8))),tostring(cmsgpack.unpack('\207\128'..('\0'):rep(7))),tostring(cmsgpack.unpack('\206\255\255\255\255'))}
----
return {pcall(cmsgpack.pack,unpack({},1,4500))}
----
return {#cmsgpack.pack(unpack({},1,4000)),pcall(cmsgpack.pack,unpack({},1,4001))}
----
return {cjson.encode({[2^40]=1}),cjson.encode({[2^31]=1}),cjson.encode({[2^31+5]='x'})}
----
return {pcall(cjson.encode,{[math.huge]=1})}
----
return {pcall(cjson.encode,{[2^31-1]=1})}
----
return {pcall(cjson.encode,{1,2,[2^40]=3})}
