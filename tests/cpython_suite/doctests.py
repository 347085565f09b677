"""A doctest as a function that can be compiled.

The examples of one docstring become the body of one function, in order; names that they bind are
globals, as they are where doctest runs them. What the interpreter would show is printed. A line of
its own, printed before each example, tells the outputs apart afterwards.
"""

import ast
import contextlib
import doctest
import io
import traceback

MARK = "=== example "
# What an example must not hold: it is code only where it is compiled by itself.
SYNTAX = "SyntaxError", "IndentationError", "TabError"


def show(value):
    if value is not None:
        print(repr(value))


def tell(error):
    print("".join(traceback.format_exception_only(type(error), error)).rstrip().splitlines()[-1])


class _Shown(ast.NodeTransformer):
    """Expression statements at the top level are shown; the names that are bound are collected."""

    def __init__(self):
        self.bound = set()

    def statement(self, node):
        for inner in self._own(node):
            if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                self.bound.add(inner.id)
            elif isinstance(inner, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                self.bound.add(inner.name)
            elif isinstance(inner, (ast.Import, ast.ImportFrom)):
                self.bound.update((a.asname or a.name).split(".")[0] for a in inner.names)
            elif isinstance(inner, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and inner.name:
                self.bound.add(inner.name)
        if not isinstance(node, ast.Expr):
            return node
        return ast.Expr(ast.Call(ast.Name("show", ast.Load()), [node.value], []))

    def _own(self, node):
        """The node and what is in it, without what has a scope of its own."""
        yield node
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef, ast.Lambda)):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                # Only what `:=` binds.
                for inner in ast.walk(child):
                    if isinstance(inner, ast.NamedExpr):
                        yield inner.target
                continue
            yield from self._own(child)


def _call(name, *arguments):
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(arguments), []))


def function_of(test):
    """(function, examples) of a doctest.DocTest; None if none of its examples can be compiled."""
    shown, body, examples = _Shown(), [], []
    for example in test.examples:
        if example.exc_msg and example.exc_msg.startswith(SYNTAX):
            continue
        if example.options.get(doctest.SKIP):
            continue
        parsed = ast.parse(example.source).body
        statements = [shown.statement(node) for node in parsed] or [ast.Pass()]
        body.append(_call("print", ast.Constant(f"{MARK}{len(examples)}")))
        if example.exc_msg:
            handler = ast.ExceptHandler(
                ast.Name("Exception", ast.Load()),
                "raised_",
                [_call("tell", ast.Name("raised_", ast.Load()))],
            )
            statements = [ast.Try(statements, [handler], [], [])]
        body += statements
        examples.append(example)
    if not examples:
        return None
    if shown.bound:
        body.insert(0, ast.Global(sorted(shown.bound)))
    arguments = ast.arguments([], [], None, [], [], None, [])
    function = ast.FunctionDef("examples", arguments, body, [])
    module = ast.fix_missing_locations(ast.Module([function], []))
    namespace = {**test.globs, "show": show, "tell": tell}
    exec(compile(module, f"<doctest {test.name}>", "exec"), namespace)
    return namespace["examples"], examples


def outcome(function, examples, flags):
    """ "passed", or what differs."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            function()
    except BaseException:
        return traceback.format_exc()
    outputs = printed.getvalue().split(MARK)[1:]
    if len(outputs) != len(examples):
        return f"{len(outputs)} of {len(examples)} examples were run"
    checker = doctest.OutputChecker()
    for example, text in zip(examples, outputs):
        got = text.partition("\n")[2]
        want = example.exc_msg.splitlines()[-1] + "\n" if example.exc_msg else example.want
        options = flags
        for flag, on in example.options.items():
            options = options | flag if on else options & ~flag
        if example.exc_msg and options & doctest.IGNORE_EXCEPTION_DETAIL:
            want, got = (s.partition(":")[0].rpartition(".")[2] for s in (want, got))
            want, got = want.strip(), got.strip()
        if not checker.check_output(want, got, options):
            return f"line {example.lineno}: {example.source}expected {want!r}, got {got!r}"
    return "passed"
