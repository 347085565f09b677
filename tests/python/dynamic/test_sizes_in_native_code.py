"""What native code and text make of sizes that vary: each call has its own numbers."""

import contextlib
import io
import textwrap

import braze
import pytest
import torch

SIZES = ((2, 3), (2, 4), (2, 5), (3, 7), (2, 3))
# Bodies of functions of a tensor `x`.
BODIES = {
    "str": """
        e=ValueError(x.shape[-1])
        return x+1, str(e)
    """,
    "repr": """
        e=ValueError(x.shape[-1])
        return x+1, repr(e)
    """,
    "fstr": """
        e=ValueError(x.shape[-1])
        return x+1, f'{e}'
    """,
    "raised": """
        try:
          raise ValueError(x.shape[-1])
        except ValueError as e:
          return x+1,str(e)
    """,
    "keyerror": """
        try:
          {}[x.shape[-1]]
        except KeyError as e:
          return x+1,str(e)
    """,
    "args": """
        try:
          raise ValueError(x.shape[-1])
        except ValueError as e:
          return x+1,e.args[0]
    """,
    "two": """
        try:
          raise ValueError(x.shape[-1],1)
        except ValueError as e:
          return x+1,str(e)
    """,
    "group": """
        try:
          raise ExceptionGroup('a',[ValueError(x.shape[-1])])
        except* ValueError as e:
          r=[str(i) for i in e.exceptions]
        return x+1,r
    """,
    "group2": """
        try:
          raise ValueError(x.shape[-1])
        except* ValueError as e:
          r=[str(i) for i in e.exceptions]
        return x+1,r
    """,
    "group3": """
        r=0
        try:
          error=ValueError(x.shape[-1])
          if x.shape[0]>0: raise error from None
        except* ValueError as e:
          r=[str(i) for i in e.exceptions]
        return x+1,r
    """,
    "map": "return x+1, list(map(str,[x.shape[-1],x.shape[0]]))",
    "dataclass": """
        import types
        n=types.SimpleNamespace(a=x.shape[-1])
        return x+1, str(n), repr(n)
    """,
    "dict": "return x+1, str({'a':x.shape[-1]}), repr([x.shape[-1]]), str((x.shape[-1],)), str(slice(x.shape[-1])), str(range(x.shape[-1]))",
    "join": "return x+1, ','.join(map(str,x.shape))",
    "fraction": """
        import collections
        C=collections.namedtuple('C','a')
        return x+1, str(C(x.shape[-1])), repr(collections.deque([x.shape[-1]]))
    """,
    "partial": """
        import functools
        return x+1, repr(functools.partial(int,x.shape[-1]))
    """,
    "stop": """
        def g():
          return x.shape[-1]
          yield
        try:
          next(g())
        except StopIteration as e:
          return x+1,e.value,str(e)
    """,
    "note": """
        e=ValueError('a'); e.add_note(str(x.shape[-1]))
        return x+1, e.__notes__
    """,
    "os": """
        e=OSError(x.shape[-1],'a')
        return x+1, str(e), e.errno
    """,
    "sysexit": """
        e=SystemExit(x.shape[-1])
        return x+1, e.code
    """,
    "hash": "return x+1, hash((x.shape[-1],)), hash(x.shape)",
    "cause": """
        try:
          try: raise ValueError(x.shape[-1])
          except ValueError as e: raise TypeError(x.shape[0]) from e
        except TypeError as t:
          return x+1,str(t),str(t.__cause__),str(t.__context__)
    """,
    "with": """
        import contextlib
        with contextlib.suppress(ValueError) as c:
          raise ValueError(x.shape[-1])
        return x+1
    """,
    "fmt": "return x+1, '{0.args}'.format(ValueError(x.shape[-1])), '%s'%ValueError(x.shape[-1]), format(ValueError(x.shape[-1]))",
    "print": """
        print(ValueError(x.shape[-1]))
        return x+1
    """,
    "map again": "return x+1, list(map(str,[x.shape[-1],x.shape[0]]))",
    "join again": "return x+1, ','.join(map(str,x.shape))",
    "join2": "return x+1, ','.join(map(str,reversed(x.shape)))",
    "join3": "return x+1, ','.join(map(repr,(s+1 for s in x.shape)))",
    "join4": "return x+1, '-'.join(map('{}'.format,x.shape))",
    "join5": "return x+1, '-'.join(map('{}:{}'.format,x.shape,reversed(x.shape)))",
    "join6": "return x+1, '-'.join(map('%d'.__mod__,x.shape))",
    "join7": "return x+1, ','.join(map(str,zip(x.shape,x.shape)))",
    "join8": "return x+1, ','.join(map(str,enumerate(x.shape)))",
    "join9": "return x+1, ','.join(map(str,{'a':x.shape[-1]}.values()))",
    "join10": "return x+1, ','.join(map(str,{'a':x.shape[-1]}.items()))",
    "join11": """
        l=[1]
        m=map(str,l)
        l.append(x.shape[-1])
        return x+1, list(m)
    """,
    "mapint": "return x+1, list(map(int,x.shape)), list(map(float,x.shape))",
    "maphash": "return x+1, list(map(hash,x.shape)), list(map(bin,x.shape))",
    "mapmeth": "return x+1, list(map([1,2,3,4,5,6,7,8].__getitem__,x.shape))",
    "mapdict": """
        d={2:'a',3:'b',4:'c'}
        return x+1, list(map(d.get,x.shape))
    """,
    "filter": "return x+1, list(filter(None,x.shape)), list(filter((3).__eq__,x.shape))",
    "filterd": """
        d={3:1}
        return x+1, list(filter(d.get,x.shape)), list(filter(d.__contains__,x.shape))
    """,
    "star": """
        import itertools
        return x+1, list(itertools.starmap(pow,[(x.shape[0],2)])), list(itertools.starmap('{}{}'.format,zip(x.shape,x.shape)))
    """,
    "acc": """
        import itertools,operator
        return x+1, list(itertools.accumulate(x.shape)), list(itertools.accumulate(x.shape,operator.mul)), list(itertools.accumulate(x.shape,max))
    """,
    "count": """
        import itertools
        return x+1, list(itertools.islice(itertools.count(x.shape[0]),2)), repr(itertools.count(x.shape[-1]))
    """,
    "repeat": """
        import itertools
        return x+1, list(itertools.repeat('a',x.shape[-1])), repr(itertools.repeat(x.shape[-1],2))
    """,
    "islice": """
        import itertools
        return x+1, list(itertools.islice([1,2,3,4,5,6,7],x.shape[-1]))
    """,
    "chain": """
        import itertools
        return x+1, str(list(itertools.chain(x.shape,[x.shape[-1]]))), list(itertools.product(x.shape,repeat=2))
    """,
    "group again": """
        import itertools
        return x+1, [(k,list(g)) for k,g in itertools.groupby([x.shape[0],x.shape[-1]])]
    """,
    "pair": """
        import itertools
        return x+1, list(itertools.pairwise(x.shape)), list(itertools.combinations(x.shape,2)), list(itertools.zip_longest(x.shape,[1]))
    """,
    "sorted": "return x+1, sorted(x.shape,reverse=True), sorted(map(int,x.shape)), max(map(int,x.shape)), min(x.shape,key=abs)",
    "sortedi": "return x+1, sorted(s for s in x.shape), max(s for s in x.shape), sum(s for s in x.shape), min(iter(x.shape))",
    "anyall": "return x+1, any(s==4 for s in x.shape), all(map((2).__le__,x.shape)), any(map((4).__eq__,x.shape))",
    "reduce": """
        import functools,operator
        return x+1, functools.reduce(operator.mul,x.shape), functools.reduce(max,iter(x.shape)), functools.reduce(lambda a,b:a+b,map(int,x.shape))
    """,
    "dictc": "return x+1, dict(zip('ab',x.shape)), dict.fromkeys(map(str,x.shape)), set(x.shape), frozenset(map(str,x.shape))",
    "counter": """
        import collections
        return x+1, collections.Counter(x.shape), collections.Counter(map(str,x.shape))
    """,
    "bytes": "return x+1, bytes(x.shape), bytes(map(int,x.shape)), bytearray(iter(x.shape)), bytes(s for s in x.shape)",
    "tuplei": "return x+1, tuple(map(str,x.shape)), [*map(str,x.shape)], {*map(str,x.shape)}, (lambda *a:a)(*map(str,x.shape))",
    "unpack": """
        a,b=map(str,x.shape)
        return x+1,a,b
    """,
    "forl": """
        r=[]
        for s in map(str,x.shape): r.append(s)
        return x+1,r
    """,
    "partial again": """
        import functools
        p=functools.partial(int,x.shape[-1])
        return x+1, p(), repr(p), p.args
    """,
    "partial2": """
        import functools
        p=functools.partial('{}'.format,x.shape[-1])
        return x+1, p(), functools.partial(pow,x.shape[0])(x.shape[-1]), functools.partial(str,x.shape[0])()
    """,
    "partial3": """
        import functools
        return x+1, list(map(functools.partial(pow,2),x.shape)), list(map(functools.partial(str),x.shape))
    """,
    "op": """
        import operator
        return x+1, operator.itemgetter(1)(x.shape), operator.attrgetter('shape')(x), operator.methodcaller('bit_length')(x.shape[-1]), list(map(operator.methodcaller('bit_length'),x.shape))
    """,
    "opx": """
        import operator
        return x+1, list(map(operator.add,x.shape,x.shape)), list(map(operator.neg,x.shape)), list(map(operator.truth,x.shape))
    """,
    "str again": "return x+1, 'a'*x.shape[-1], 'abcdefgh'[x.shape[-1]], 'a'.center(x.shape[-1]), 'x'.join('ab'[:x.shape[0]])",
    "json": """
        import json
        return x+1, json.dumps(list(x.shape)), json.dumps({'a':x.shape[-1]})
    """,
    "text": "return x+1, f'{x.shape}', str(x.shape), repr(x.size()), '%s'%(x.shape,), '{}'.format(x.shape), f'{x.shape!r:>30}'",
    "text2": "return x+1, f'{[*x.shape]}', '%s %s'%tuple(x.shape), '{0} {1}'.format(*x.shape), f'{dict(a=x.shape[-1])}'",
    "hashkey": """
        d={}
        d[x.shape]=1
        d[tuple(x.shape)]=2
        d[x.shape[-1]]=3
        return x+1, d
    """,
    "divmod": "return x+1, divmod(x.shape[-1],2), round(x.shape[-1],-1), pow(x.shape[-1],2,5), x.shape[-1].__add__(1), int.__add__(x.shape[-1],1)",
    "math": """
        import math
        return x+1, math.sqrt(x.shape[-1]), math.gcd(*x.shape), math.prod(x.shape), math.comb(x.shape[-1],2), list(map(math.sqrt,x.shape))
    """,
    "chr": "return x+1, chr(x.shape[-1]), list(map(chr,x.shape)), ascii(x.shape[-1]), hex(x.shape[-1]), oct(x.shape[-1])",
    "isinst": "return x+1, list(map(type,x.shape)), [isinstance(s,int) for s in x.shape], list(map(int.__instancecheck__ if hasattr(int,'__instancecheck__') else callable,x.shape))",
    "rangemap": "return x+1, list(map(list,map(range,x.shape))), list(zip(*map(range,x.shape)))",
    "complexn": "return x+1, complex(x.shape[-1]), float(x.shape[-1]), bool(x.shape[-1]), int(str(x.shape[-1]))",
    "fracdec": """
        import fractions,decimal
        return x+1, fractions.Fraction(x.shape[-1],3), decimal.Decimal(x.shape[-1])
    """,
    "ns": """
        import types
        return x+1, types.SimpleNamespace(a=x.shape[-1])==types.SimpleNamespace(a=4), [x.shape[-1]].index(x.shape[-1]), [1,2,3,4].count(x.shape[-1])
    """,
    "enum": """
        import enum
        E=enum.IntEnum('E','A B C D E F G')
        return x+1, E(x.shape[-1]).name, list(map(E,x.shape))
    """,
    "np": """
        import numpy
        return x+1, numpy.prod(x.shape).item(), numpy.zeros(x.shape).shape, list(map(numpy.int64,x.shape))
    """,
    "struct": """
        import struct
        return x+1, struct.pack('i',x.shape[-1]), (x.shape[-1]).to_bytes(2,'big')
    """,
    "re": """
        import re
        return x+1, re.sub('a',str(x.shape[-1]),'ab'), re.match('.{%d}'%x.shape[-1],'abcdefg').group()
    """,
}


def function_of(body):
    space = {"torch": torch}
    body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    exec(f"def f(x):\n{body}\n", space)
    return space["f"]


def seen(function, x):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = function(x)
        except Exception as error:
            result = (x, type(error), str(error))
    rest = result[1:] if isinstance(result, tuple) else ()
    return repr(rest), rest, printed.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", BODIES)
def test_sizes_in_native_code(name, dynamic):
    fast, plain = (function_of(BODIES[name]) for _ in range(2))
    fast = braze.compile(fast, dynamic=dynamic)
    for sizes in SIZES:
        assert seen(fast, torch.ones(sizes)) == seen(plain, torch.ones(sizes)), sizes
