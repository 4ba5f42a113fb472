"""Small templates that try one thing of the language each. template_golden.py renders them with transformers' Jinja."""

# What every snippet sees.
VARIABLES = {
    "n": 5, "neg": -7, "big": 12345678901, "f": 2.5, "t": True, "no": False, "nul": None,
    "s": "Hello World", "e": "", "u": "héllo wörld ß ǆ İ ΑΣ", "quote": "it's \"q\" \\ \n\t\x07", "one": "it's",
    "ws": "  \n a  b \t\u00a0", "html": "<a href=\"x\">&'</a>", "multi": "a\nb\r\nc\u2028d\n\ne\n",
    "emoji": "😀é\u200b\u00ad", "lst": [3, 1, 2], "empty": [], "words": ["b", "A", "c", "B", "a"],
    "dct": {"b": 2, "a": 1, "items": "x", "B": 3}, "emptyd": {}, "mixed": [1, "two", 3.5, None, True, ["x", {"k": "v"}]],
    "nested": [{"name": "x", "v": 1, "tags": ["a"]}, {"name": "Y", "v": 2, "tags": []}, {"name": "z", "v": None}],
    "tree": [{"n": "1", "c": [{"n": "1.1", "c": []}, {"n": "1.2", "c": [{"n": "1.2.1", "c": []}]}]}, {"n": "2", "c": []}],
    "floats": [1.0, 1e16, 1e15, 1e-5, 0.0001, 0.1, 123456789.123, 1e22, -0.0, 1.5e300, 2.5e-7, 100.0],
    "csv": "a,b,,c", "think": "<think>\nhm\n</think>\n\nans", "num": "42", "numf": " 42.9 ", "hex": "0x1F",
}

# Expressions: rendered as {{ EXPRESSION }}.
EXPRESSIONS = r"""
1 + 2 * 3
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
7 / 2
6 / 2
2 ** 10
2 ** -1
2 ** 0.5
-2 ** 2
2 ** 3 ** 2
7.5 // 2
-7.5 % 2
7.5 % -2
1 - 2 - 3
10 - 2 + 3
n / 0
n % 0
n // 0
1e3
1.5e-7
1_000
0.1 + 0.2
9223372036854775807
big * 2
+neg
-(-3)
- f
"a" + "b"
"a" "b" 'c'
"a" ~ 1 ~ none ~ true ~ 2.0
1 ~ 2 + 3
1 + 2 ~ 3
"a" * 3
3 * "ab"
lst * 2
lst + [9]
(1, 2) + (3,)
"a" + 1
1 + "a"
lst + (1,)
s[0]
s[-1]
s[99]
s[1:3]
s[::-1]
s[-3:]
s[:-3]
s[10:2]
s[8:2:-2]
s[::2]
u[1]
u[::-1]
u[-5:]
emoji[0]
lst[0]
lst[-1]
lst[5]
lst[::-1]
lst[1:]
lst[:1]
lst[5:]
lst[-100:100]
lst[::0]
lst["x"]
lst.0
nested.0.name
nested[0]["name"]
nested[2].tags
nested[2].tags.x
dct.a
dct["items"]
dct.items
dct.missing
dct["missing"]
dct.get("a")
dct.get("zz")
dct.get("zz", 7)
dct.keys()
dct.values()
dct.items()
dct.items()|list
dct.keys()|list
dct|list
dct|length
dct|first
dct.items()|first
missing
missing.x
missing["x"]
missing + 1
missing ~ "x"
missing == none
missing == missing2
missing is defined
not missing
missing|length
missing|default("d")
e|default("d")
e|default("d", true)
e|d("x", boolean=true)
nul|default("d")
missing()
s()
s.nope
s.nope()
none
true
True
[none, true, 1.0, "x"]
(1,)
()
(1, 2)
1, 2
{}
{"a": 1, 'b': [1, {"c": none}]}
{"a": 1, "a": 2}
mixed
quote
[quote]
[one]
[emoji]
[u]
[html]
["\x00\x1f\x7f\u00a0\u2028"]
floats
1e308 * 10
-1e308 * 10
1 < 2 < 3
1 < 3 < 2
1 < 2 > 0
3 > 2 >= 2
1 == 1.0
1 == true
"1" == 1
none == none
lst == [3, 1, 2]
lst == (3, 1, 2)
dct == {"a": 1, "b": 2, "items": "x", "B": 3}
"a" < "b"
"Z" < "a"
[1, 2] < [1, 3]
1 < "a"
none < 1
lst < dct
"ell" in s
"x" not in s
1 in lst
"a" in dct
2 in dct
1 in "abc"
none in [none]
1 in none
1 in 5
missing in s
1 in missing
"a" in missing
not true
not not 1
1 and 2
0 and 2
0 or "x"
"" or 0
none or false or "z"
true and not false
1 if true else 2
1 if false else 2
1 if false
(1 if false) is defined
"a" if n > 3 else "b" if n > 2 else "c"
n is number
n is integer
f is float
t is number
t is integer
t is boolean
n is boolean
n is string
s is string
s is sequence
s is iterable
s is mapping
dct is mapping
dct is sequence
dct is iterable
lst is sequence
lst is iterable
(1,) is sequence
dct.items() is sequence
dct.items() is iterable
lst|map("string") is sequence
lst|map("string") is iterable
missing is sequence
missing is iterable
missing is mapping
missing is string
missing is none
missing is undefined
nul is none
none is defined
n is odd
n is even
n is not odd
n is divisibleby 5
n is divisibleby(2)
n is eq 5
n is equalto(5)
n is ne 5
n is gt 3
n is lt(3)
n is ge 5
n is le 4
n is in [1, 5]
"x" is in "xyz"
n is sameas n
true is sameas true
1 is sameas true
t is true
no is false
1 is true
s is lower
s is upper
"abc" is lower
"ABC 1" is upper
"1" is upper
range is callable
s is callable
"upper" is filter
"nope" is filter
"odd" is test
"a" is escaped
("a"|safe) is escaped
n is nosuchtest
n is defined and s is string
n is not defined or s is string
s|upper
s|lower
u|upper
u|lower
u|title
u|capitalize
s|title
"foo-bar (baz) [qux] {x} <y> it's"|title
"HELLO wORLD"|capitalize
s|length
u|length
emoji|length
s|count
s|first
s|last
e|first
lst|first
lst|last
empty|first
empty|last
s|reverse
lst|reverse
lst|reverse|list
u|reverse
s|list
u|list
ws|trim
ws|trim|length
"xxaxx"|trim("x")
n|trim
none|trim
missing|trim
s|replace("l", "L")
s|replace("l", "L", 1)
s|replace("", "-")
n|replace(5, 6)
lst|join
lst|join(", ")
lst|join(1)
mixed|join("|")
nested|join(",", attribute="name")
nested|map(attribute="name")|join(",")
nested|map(attribute="tags.0", default="-")|join(",")
words|map("upper")|list
words|map("replace", "a", "x")|list
lst|map("nosuchfilter")|list
lst|map
nested|selectattr("v")|map(attribute="name")|list
nested|selectattr("v", "equalto", 2)|list|length
nested|selectattr("v", "none")|map(attribute="name")|list
nested|rejectattr("v", "none")|map(attribute="name")|list
nested|selectattr("tags", "defined")|list|length
nested|selectattr("name", "in", ["x", "z"])|map(attribute="name")|list
lst|select("odd")|list
lst|select|list
lst|reject("equalto", 1)|list
lst|select("greaterthan", 1)|list
lst|select("==", 1)|list
lst|select("nosuchtest")|list
lst|map("string")|length
lst|map("string")|list|length
(lst|select("equalto", 99)) is defined
"yes" if lst|select("equalto", 99) else "no"
lst|sort
lst|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
nested|sort(attribute="name")|map(attribute="name")|list
nested|sort(attribute="name", reverse=true)|map(attribute="name")|list
mixed|sort
words|unique|list
words|unique(case_sensitive=true)|list
words|min
words|max
lst|min
lst|max
empty|max
lst|sum
nested[:2]|sum(attribute="v")
lst|sum(start=10)
dct|dictsort
dct|dictsort(true)
{"b": 2, "a": 1}|dictsort(false, "value")
{"b": 2, "a": 1}|dictsort(reverse=true)
dct|items|list
missing|items|list
lst|items|list
lst|batch(2)|list
lst|batch(2, "x")|list
[1,2,3,4,5,6,7]|slice(3)|list
[1,2,3,4,5,6,7]|slice(3, "x")|list
words|groupby("0")|list
nested|groupby("name")|map("first")|list
n|abs
neg|abs
f|abs
s|abs
2.5|round
3.5|round
2.675|round(2)
2.5|round|int
42.55|round(1, "floor")
42.55|round(1, "ceil")
n|round
1234.5678|round(-2)
num|int
numf|int
"x"|int
"x"|int(7)
"x"|int(default=none)
hex|int(base=16)
hex|int
"-12"|int
" 7 "|int
"1_0"|int
f|int
-2.7|int
none|int
t|int
num|float
"x"|float
"1e3"|float
"inf"|float
n|float
lst|float
n|string
none|string
lst|string
1.0|string
dct|string
lst|tojson
dct|tojson
dct|tojson(indent=2)
nested|tojson(indent=4)
mixed|tojson(indent=0)
empty|tojson(indent=2)
dct|tojson(sort_keys=true)
dct|tojson(separators=(",", ":"))
mixed|tojson(indent=2, separators=(",", ": "))
mixed|tojson(indent="--")
u|tojson
u|tojson(ensure_ascii=true)
emoji|tojson
emoji|tojson(ensure_ascii=true)
quote|tojson
html|tojson
"\x00\x1f\x7f\u2028"|tojson
floats|tojson
(1, 2)|tojson
{1: "a", none: "b", true: "c", 1.5: "d"}|tojson
missing|tojson
dct.items()|tojson
range(3)|tojson
html|escape
html|e
html|safe
html|e|e
html|forceescape
"<" + ("<"|safe)
("<"|safe) + "<"
("<"|safe) ~ "<"
["<"|safe, "<"]|join
"%s-%d-%05.2f-%r" % ("a", 3, 2.5, "q")
"%(a)s %(b)d" % dct
"%5s|%-5s|%05d|%+d|%x|%%" % ("a", "b", 42, 7, 255)
"%d" % "x"
"%s" % lst
"%s %s" % "a"
"%s|%s"|format("x", 1)
"%(x)s"|format(x=3)
"{} {}".format(1, "a")
"{1} {0} {x}".format(1, 2, x=3)
"{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{:*^9}".format("a", "b", "c", 42, 2.5, 1234567, 255, "mid")
"{!r} {!s} {{}}".format("a", "b")
"{0[a]} {0[b]}".format(dct)
"{}".format()
"{".format(1)
multi|indent
multi|indent(2)
multi|indent(2, true)
multi|indent(2, blank=true)
multi|indent("> ", first=true)
s|center(20)
s|truncate(8)
s|truncate(3, true, "")
"foo bar baz qux"|truncate(9, leeway=0)
"foo bar baz qux"|truncate(9, true, leeway=0)
"a b-c d_e 1"|wordcount
"a b/c?d=é"|urlencode
{"a b": "c&d"}|urlencode
s|attr("upper")
dct|attr("a")
s|nosuchfilter
s|upper(1)
s|join(nosuch=1)
s.upper()
u.upper()
u.title()
u.capitalize()
s.swapcase()
s.split()
ws.split()
"a b  c".split(" ")
csv.split(",")
csv.split(",", 1)
csv.rsplit(",", 1)
csv.split(",", maxsplit=2)
" a b c ".split(none, 1)
" a b c ".rsplit(none, 1)
"a b ".split(none, 1)
"aaa".rsplit("aa")
csv.split("")
e.split()
e.split(",")
think.split("</think>")[-1].lstrip("\n")
think.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
ws.strip()
ws.lstrip()
ws.rstrip()
"xyxabcyx".strip("xy")
"héé".rstrip("é")
s.startswith("Hell")
s.startswith(("x", "H"))
s.startswith("ello", 1)
s.endswith("World")
s.endswith(("x", "d"))
s.startswith(1)
s.replace("o", "0")
s.replace("o", "0", 1)
s.replace("", "-")
s.find("o")
s.find("o", 5)
s.find("zz")
s.rfind("o")
u.find("w")
s.index("zz")
s.count("l")
s.count("")
"aaaa".count("aa")
", ".join(["a", "b"])
", ".join([1])
"abc".join("xy")
s.partition(" ")
s.rpartition("o")
s.partition("zz")
s.removeprefix("Hello ")
s.removesuffix("World")
s.zfill(15)
"-7".zfill(4)
s.ljust(13) ~ "|"
s.rjust(13, "*")
"ab".center(5, "*")
"abc".center(6, "*")
multi.splitlines()
multi.splitlines(true)
s.isalpha()
"abc".isalpha()
"12".isdigit()
"a1".isalnum()
" ".isspace()
"".isspace()
"Ab".islower()
"ab".islower()
"AB".isupper()
lst.index(1)
lst.count(1)
lst.append(4)
lst.append
lst.append is defined
dct.update({})
dct.pop("a")
dct.setdefault("x", 1)
s.__class__
dct.__class__
namespace(a=1)._x is defined
s._x
range(5)|list
range(2, 5)|list
range(5, 0, -2)|list
range(0)
range(3)
range(1, 7, 2)
range(100001)|length
range(1, 2, 0)
range(5)[2]
range(5)[-1]
range(5)|length
range("a")
dict(a=1, b=2)
dict([("a", 1)], c=3)
dict(dct, a=5)
namespace(a=1).a
namespace(a=1).b
namespace({"x": 2}).x
raise_exception("no way")
joiner("|")()
strftime_now("%Y")|length
[1, 2, 3]|map("string")|map("length")|sum
{"a": {"b": [1, 2]}}.a.b[1]
(lst|sort)[0]
(n)
[1, 2,]
{"a": 1,}
lst[1:][0]
"a,b".split(",")|map("upper")|join("-")
-n|abs
-5|abs
2 + 3|string
"x" if s is string and n > 3
s is string == true
not n == 5
n in [5] and s
(n, s)[1]
"\u00e9\x41\101\n\q\
end"
'\'"'
u"x"
1 +
(1
1)
[1
{"a" 1}
"abc
s[
s|
n is
@
n $ 1
a b
not
nul|map(attribute="x")|list
0|select|list
missing|int
missing|float
"a" % lst
"%s" % missing
u.casefold()
lst[1, 2]
lst[1:2, 3]
dct[(1, 2)]
"""

# Whole templates.
TEMPLATES = [
    # Whitespace: trim_blocks, lstrip_blocks, signs.
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n  {% if true %}  \n  b\n  {% endif %}  \n  c\n\n",
    "a {%- if true -%} b {%- endif -%} c",
    "a {%+ if true +%}\n b {% endif +%}\nc",
    "  {%+ if true %}x{% endif %}",
    "  {% if true %}x{% endif %}",
    " x {% if true %}x{% endif %}",
    "{{ 1 }}\n{{ 2 }}\n",
    "  {{ 1 }}  \n  {{- 2 -}}  \n 3",
    "a\n{# comment #}\nb",
    "a\n  {#- comment -#}  \nb",
    "a\n  {#+ comment +#}\nb",
    "  {# c #}{% if true %}x{% endif %}",
    "{# a #}  {% if true %}x{% endif %}\n  {# b #}\n",
    "{% if true %}\n\n x{% endif %}",
    "{% if true -%}\n\n x{% endif %}",
    "\n\n{% if true %}x{% endif %}\n\n",
    "a\r\nb\rc{{ 'x\r\ny' }}\r\n",
    "x\n\n",
    "x\n",
    "",
    "\n",
    "{% raw %}{{ x }}{% if %}{% endraw %}",
    "a\n  {% raw %}\n {{ x }} \n  {% endraw %}\nb",
    "a {%- raw -%}  {{ x }}  {%- endraw -%} b",
    "{% raw %}{% endraw",
    "{# open",
    "{{ open",
    "{% if x",
    "{{ '}}' }}{{ '%}' }}{{ \"{{\" }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {'b': 1}} }}",
    "{{ {} }}",
    "{ { } } {{ 1 }} {# #} { % %}",
    "{%if true%}x{%endif%}{{s}}",
    "{%- set x = 1 %}\n{{ x }}",
    "é {% if true %} ü {% endif %} ß\n",
    "\u00a0{%- if true -%}\u2003x{%- endif %}",
    # If, for.
    "{% if no %}a{% elif n == 5 %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif no %}b{% else %}c{% endif %}",
    "{% if lst %}y{% endif %}{% if empty %}y{% else %}n{% endif %}{% if emptyd or e or nul or 0 or 0.0 %}y{% else %}n{% endif %}",
    "{% for x in lst %}{{ x }},{% endfor %}",
    "{% for x in empty %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in nul %}{{ x }}{% endfor %}",
    "{% for x in 5 %}{{ x }}{% endfor %}",
    "{% for c in 'hé' %}[{{ c }}]{% endfor %}",
    "{% for k in dct %}{{ k }},{% endfor %}",
    "{% for k, v in dct.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in dct|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in lst %}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "{% for x in lst %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}"
    "{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for x in lst %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in lst %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in lst %}{{ loop.nope }}{% endfor %}",
    "{% for x in lst %}{{ loop }}{% endfor %}",
    "{% for x in lst if x > 1 %}{{ x }}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}",
    "{% for x in lst if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in nested if x.v is not none %}{{ x.name }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in lst %}{% for y in lst %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% break %}",
    "{% for x in lst %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for i in lst recursive %}{{ i }}{% endfor %}",
    "{% for i in tree recursive %}{{ i.n }}@{{ loop.depth }}{% if i.c %}({{ loop(i.c) }}){% endif %}{% endfor %}",
    "{% for x in lst %}{{ loop(x) }}{% endfor %}",
    "{% for x in lst|reverse %}{{ x }}{{ loop.last }}{% endfor %}",
    "{% for x in lst|map('string') %}{{ x }}{{ loop.length }}{% endfor %}",
    "{% set g = lst|map('string') %}{{ g|join }}|{{ g|join }}",
    "{% set g = lst|map('string') %}{{ g|first }}|{{ g|join }}",
    "{% set g = lst|select %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% else %}gone{% endfor %}",
    "{% for x in lst %}{% else %}{% endfor %}{% else %}",
    "{% for x in lst %}{{ x }}{% endif %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    # Set and scopes.
    "{% set x = 1 %}{% for i in lst %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in lst %}{% set y = i %}{% endfor %}{{ y is defined }}",
    "{% for i in lst %}{% if i == 1 %}{% set y = i %}{% endif %}{{ y is defined }}{% endfor %}",
    "{% for i in lst %}{% endfor %}{{ i is defined }}{{ loop is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a, b = lst %}{{ a }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper | replace('A', 'z') %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}",
    "{% set ns = namespace(v=0) %}{% for i in lst %}{% set ns.v = ns.v + i %}{% endfor %}{{ ns.v }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b is defined }}{{ ns.a is defined }}",
    "{% set ns = namespace() %}{% set ns._a = 1 %}{{ ns._a }}",
    "{% set dct.z = 1 %}",
    "{% set nope.z = 1 %}",
    "{% set 1 = 2 %}",
    "{% set none = 2 %}",
    "{% set s[0] = 2 %}",
    "{% set ns = namespace(l=[]) %}{% for i in lst %}{% set ns.l = ns.l + [i * 2] %}{% endfor %}{{ ns.l }}",
    "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% set n = n + 1 %}{{ n }}",
    "{% set messages = messages[1:] %}{{ messages|length }}",
    "{% if not tools is defined %}{% set tools = none %}{% endif %}{{ tools is none }}{{ documents is none }}",
    "{% set range = 5 %}{{ range }}",
    "{% filter upper %}a{{ s }}b{% endfilter %}",
    "{% filter replace('l', 'L') | trim %} {{ s }} {% endfilter %}",
    "{% print n + 1 %}",
    # Macros and calls.
    "{% macro f(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c='y') }}{{ f(b=1, a=0) }}",
    "{% macro f(a) %}[{{ a }}{{ a is defined }}]{% endmacro %}{{ f() }}",
    "{% macro f(a) %}{{ a.x }}{% endmacro %}{{ f() }}",
    "{% macro f(a) %}x{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}x{% endmacro %}{{ f(b=2) }}",
    "{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, z=4) }}",
    "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(1) }}",
    "{% macro f(a, b=1, c) %}{% endmacro %}",
    "{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}",
    "{% set x = 1 %}{% macro f() %}{{ x }}{% set x = 2 %}{{ x }}{% endmacro %}{{ f() }}{{ x }}",
    "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{%- macro f(x) -%}\n  {{ x }}\n{%- endmacro -%}\n[{{ f(1)|trim }}]",
    "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}in{{ n }}{% endcall %}",
    "{% macro f(x) %}{{ caller(x, x + 1) }}{% endmacro %}{% call(a, b) f(1) %}{{ a }}-{{ b }}{% endcall %}",
    "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}",
    "{% call s %}{% endcall %}",
    "{% macro f() %}x{% endmacro %}{{ f.name }}{{ f is callable }}",
    "{{ f() }}{% macro f() %}x{% endmacro %}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(*[1]) }}{{ f(**{'a': 2}) }}",
    "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*lst[:1], **{'b': 2}) }}",
    "{% for x in lst %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}",
    "{% macro m(x, y=false) %}{% if y %}{{ x|upper }}{% else %}{{ x }}{% endif %}{% endmacro %}{{ m('a') ~ m('b', true) }}",
    # Generation blocks: their own scope, no output of their own.
    "{% generation %}a{{ n }}{% endgeneration %}b",
    "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}",
    "a\n  {%- generation %}\n  b\n  {%- endgeneration %}\n c",
    "{% for x in lst %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    # Unknown and broken.
    "{% nosuch %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% do lst.append(1) %}",
    "{% endif %}",
    "{% if true %}x",
    "{% if %}x{% endif %}",
    "{% for x lst %}{% endfor %}",
    "{% for in lst %}{% endfor %}",
    "{% set %}",
    "{% set x %}",
    "{% macro %}{% endmacro %}",
    "{% if true %}{% for x in lst %}{% endif %}{% endfor %}",
    "{% if no %}{{ s|nosuchfilter }}{% endif %}ok",
    "{{ 'ok' if true else s|nosuchfilter }}",
    "{{ messages[0].role }}:{{ messages[0]['content'] }}{{ messages|length }}{{ messages[-1] == messages[0] }}",
    "{{ messages[0] }}",
    "{{ messages|tojson }}",
    "{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}|{{ add_generation_prompt }}|{{ tools }}|{{ documents }}",
    "{% set j = joiner('; ') %}{% for x in lst %}{{ j() }}{{ x }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{% for x in lst %}{{ c.next() }}{% endfor %}",
    "{{ lst|sort|first }}{{ (lst|sort)[::-1]|join }}",
    "{{- '<|im_start|>' + messages[0].role + '\\n' + messages[0].content | trim + '<|im_end|>' }}",
    "{{ '' if missing is undefined else missing }}{{ missing.x if missing is defined else 'd' }}",
    "{% set s = s|lower if s is string else s %}{{ s }}",
    "{{ ('a' if t else 'b') + ('c' if no else 'd') }}",
    "{{ {'type': 'function', 'function': {'name': 'f', 'parameters': {'x': [1, 2.0, none]}}} | tojson }}",
    "{{ strftime_now('%Y-%m-%d %H:%M %b %d %%') }}",
]
