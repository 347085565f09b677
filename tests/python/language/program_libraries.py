"""Statements of random programs over PyTorch's own objects and over what lies outside of it: memory
that NumPy or DLPack shares, distributions, modules with state, schedulers, weak dictionaries, errors
that depend on data or dtype and are caught, random generators, layouts."""

from pathlib import Path

PRELUDE = Path(__file__).with_name("program_libraries_prelude.py").read_text()
# What of the prelude a call may change.
STATE = (
    "ARRAY", "SHARED", "LAYER", "NORM", "OPTIMIZER", "WEAK", "SOURCE", "KEPT", "LAZY", "IMAGE",
)  # fmt: skip


class Libraries:
    """Mixed into `programs.Writer`."""

    def over_libraries(self):
        """Statements by weight."""
        return [
            (14, self.outside_memory), (14, self.library_object), (14, self.caught_error),
            (12, self.random_numbers), (14, self.layout),
        ]  # fmt: skip

    def telling(self, lines):
        """The lines; what they raise is noted with its message."""
        self.put("try:")
        for line in lines:
            self.put("    " + line)
        self.put("except Exception as e:")
        self.put("    LOG.append(told(e))")

    def two(self):
        return self.var("tensor"), self.var("tensor"), self.integer(1)

    def outside_memory(self):
        x, y, n = self.two()
        self.telling(
            self.pick(
                [f"a = {x}.numpy(); a[0] = {n}; LOG.append({x} + 1)"],
                [f"v = torch.from_numpy({x}.numpy()); v[-1] = {n}; {y} = {x} * 2"],
                [f"v = torch.from_dlpack({x}); v.add_({n}); LOG.append({x}.sum())"],
                [f"ARRAY[0] += {n} % 5; LOG.append(SHARED * 2)"],
                [f"SHARED.add_({n} % 3); LOG.append(float(ARRAY[0, 0]))"],
                [f"SHARED.copy_({x}); {y} = torch.as_tensor(ARRAY) + {y}"],
                [f"t = torch.as_tensor(ARRAY); t.sub_({x}); LOG.append(ARRAY.sum().item())"],
                [f"KEPT.append({x}.numpy())", f"{x}.add_(1); LOG.append(KEPT[-1].max().item())"],
                ["for a in KEPT[-2:]:", f"    if isinstance(a, numpy.ndarray): a[...] = {n}", f"LOG.append({x} * 1)"],
                [f"b = bytearray(24); t = torch.frombuffer(b, dtype=torch.float32); t += {n}", "LOG.append((bytes(b[:4]), t * 1))"],
                [f"a = numpy.asarray({x}); {x}.mul_(2); LOG.append(a.sum().item())"],
                [f"{y} = torch.from_numpy(ARRAY.copy()) + {x}; LOG.append({y}.shape)"],
                [f"a = {x}.t().numpy(); a[0, 0] = {n}; {y} = {x} + 1"],
                [f"v = torch.from_numpy({x}.numpy()); w = torch.from_dlpack({x}); v += 1; w *= 2", f"LOG.append(({x}.clone(), v is w))"],
                [f"{x}.numpy()[:] = ARRAY; LOG.append(({x} - SHARED).abs().sum())"],
                [f"v = torch.from_numpy(ARRAY); SHARED.mul_(2); LOG.append(v + {x}); v.zero_()"],
            )
        )  # fmt: skip

    def library_object(self):
        x, y, n = self.two()
        self.telling(
            self.pick(
                [f"d = D.Bernoulli(logits={x}); LOG.append((d.mean, d.sample()))"],
                [f"d = D.Normal({x}, 1.5 + {n} % 3); KEPT.append(d); LOG.append(d.log_prob({y}))"],
                ["for d in KEPT[-3:]:", "    if isinstance(d, D.Distribution): LOG.append((d.mean, d.entropy()))"],
                [f"d = D.Categorical(logits={x}); KEPT.append(d); LOG.append(d.probs.sum(-1))"],
                [f"LOG.append(D.kl_divergence(D.Normal({x}, 2.0), D.Normal(0.0, 1.0 + {n} % 2)))"],
                [f"d = D.Independent(D.Laplace({x}, 1.0), 1); LOG.append(d.log_prob({y}))"],
                [f"d = D.TransformedDistribution(D.Normal({x}, 1.0), [D.TanhTransform()]); LOG.append(d.rsample())"],
                [f"{x} = LAYER({x}); LAYER.bias.add_({n} % 3)"],
                [f"{x} = NORM({x}); LOG.append(int(NORM.num_batches_tracked))"],
                [f"NORM.train({n} % 2 == 0); {y} = NORM({x})"],
                [f"LOG.append(list(LAYER.state_dict())); LAYER.register_buffer('seen', {x} + 1)", f"{y} = {x} - LAYER.seen"],
                ["LAYER.load_state_dict({'weight': torch.eye(3), 'bias': torch.zeros(3)}, strict=False); LOG.append(LAYER.weight.sum())"],
                [f"layer = nn.Linear(3, 2); {y} = layer({x}); LOG.append([p.shape for p in layer.parameters()])"],
                ["SCHEDULE.step(); LOG.append(SCHEDULE.get_last_lr())"],
                [f"OPTIMIZER.param_groups[0]['lr'] = 0.1 + {n} % 3; LOG.append({x} * OPTIMIZER.param_groups[0]['lr'])"],
                [f"WEIGHTS.grad = {x}.sum(0); OPTIMIZER.step(); LOG.append(WEIGHTS.detach() + 0)"],
                [f"WEAK[{x}] = WEAK.get({x}, 0) + 1; LOG.append((len(WEAK), {y} in WEAK))"],
                [f"LOG.append(WEAK.pop({x}, None)); {y} = {y} * (1 + len(WEAK))"],
                [f"LAZY.x = {x}; LOG.append(LAZY.twice + {y})"],
                ["LAZY.__dict__.pop('twice', None); LOG.append(LAZY.twice.sum())"],
                [f"lazy = Lazy({x}); LOG.append(lazy.twice is lazy.twice); KEPT.append(lazy)"],
                ["LOG.append([l.twice for l in KEPT if isinstance(l, Lazy)][:2])"],
                [f"m = nn.Sequential(LAYER, nn.ReLU(), DROP); {y} = m({x}); LOG.append(len(list(m.modules())))"],
                [f"handle = LAYER.register_forward_hook(lambda m, a, o: o * 2); {y} = LAYER({x}); handle.remove()"],
                [f"out = torch.func.vmap(lambda v: v * {n})({x}); LOG.append(out.sum())"],
                [f"out = torch.func.functional_call(LAYER, {{'bias': {x}[0]}}, ({y},)); LOG.append(out)"],
                [f"LOG.append(torch.utils._pytree.tree_map(torch.neg, {{'a': [{x}, ({y},)]}}))"],
            )
        )  # fmt: skip

    def caught_error(self):
        """An operator that refuses some data, dtypes or shapes; what the program does then."""
        x, y, n = self.two()
        whole = self.pick(
            "torch.int32", "torch.int64", "torch.bool", "torch.float64", "torch.uint8"
        )
        operation = self.pick(
            f"{x}.to({whole}).clone().{self.pick('floor_divide_', 'pow_', 'add_', 'div_', 'sub_', 'bitwise_and_', 'clamp_')}({y}.double())",
            f"{x}.to({whole}) {self.pick('-', '//', '%', '**', '<<', '@')} {y}.to({whole})",
            f"{x}.to({whole}) - True", f"torch.ones(3).gather(0, torch.tensor([{n}]))",
            f"torch.ones(3).index_select(0, torch.tensor([{n}]))", f"F.one_hot(torch.tensor([{n}]), 3)",
            f"F.cross_entropy({x}, torch.tensor([{n}, 1]))", f"F.embedding(torch.tensor([{n}]), {x})",
            f"{x}[torch.tensor([{n}])]", f"{x}.view({n}, -1)", f"torch.stack([{x}, {y}])", f"{x} @ {y}",
            f"torch.bernoulli({x})", f"torch.multinomial({x}, {n})", f"torch.normal({x}, {y})", f"D.Normal({x}, {y})",
            f"D.Bernoulli({x})", f"torch.linalg.cholesky({x}.mT @ {x} - {n} * torch.eye({x}.size(-1)))",
            f"torch.linalg.inv(torch.eye({x}.size(-1)) * (2 * ({n} > 1)))", f"{x}.to({whole}).sqrt_()", f"{x}.to({whole}).normal_()",
            f"torch.tensor([3]) // torch.tensor([{n} % 2])", f"torch.arange(0, {n}, -1)", f"torch.zeros({n})",
            f"{x}.expand({n}, 2, 3)", f"{x}.squeeze(0).unsqueeze({n})", f"{x}.transpose(0, {n})", f"{x}.masked_select({y})",
            f"{x}.index_add(0, torch.tensor([0, {n}]), {y}[:2])", f"{x}.scatter(0, torch.tensor([[{n}]]), 1.0)",
            f"F.conv2d({x}[None], torch.ones(1, 1, {n}, 1))", f"{x}.clone().copy_({y}[:1, :2])", f"torch.cat([{x}, {y}], {n})",
            f"F.nll_loss({x}, torch.tensor([0, {n}]))", f"torch.bincount({x}.long().flatten())", f"{x}.item()",
            f"torch.repeat_interleave({x}, torch.tensor([1, {n}]), 0)", f"F.dropout({x}, {n} / 2)", f"{x}.t().view(-1)",
            f"{x}.chunk({n})", f"{x}.split({n})", f"{x}.unfold(0, {n}, 1)", f"torch.quantile({x}, {n} / 2)",
        )  # fmt: skip
        kind = self.random.randrange(4)
        if kind == 0:
            self.telling([operation])
        elif kind == 1:
            self.telling([f"r = {operation}", "LOG.append(r)"])
        elif kind == 2:
            self.telling([f"{y} = {y} + 1", operation, f"{y} = {y} * 2"])
        else:
            self.put("try:")
            self.put(f"    r = {operation}")
            self.put(
                f"except ({self.pick('RuntimeError', 'ValueError', 'IndexError', 'TypeError')}, ZeroDivisionError) as e:"
            )
            self.put(f"    r = {x} * 3; LOG.append(told(e))")
            self.put("except Exception as e:")
            self.put("    r = None; LOG.append(type(e).__name__)")
            self.put("else:")
            self.put(f"    {x} = {x} - 1")
            self.put("LOG.append(r)")

    def random_numbers(self):
        x, y, n = self.two()
        self.telling(
            self.pick(
                [f"{x} = {x} + torch.rand({x}.shape)"], [f"LOG.append(torch.randn(2, 3, generator=SOURCE) + {x})"],
                [f"LOG.append(torch.randperm(abs({n}) % 9 + 1))"], [f"{x}.bernoulli_(0.5); LOG.append({x}.sum())"],
                [f"{x}.uniform_(generator=SOURCE); {y} = {x} + 1"],
                [f"g = torch.Generator().manual_seed(abs({n})); LOG.append(torch.randint(0, 5, (3,), generator=g) * {n})"],
                [f"{y} = F.dropout({x}, 0.5)"], [f"torch.manual_seed(abs({n})); {x} = torch.randn_like({x})"],
                ["state = torch.get_rng_state(); a = torch.rand(2); torch.set_rng_state(state); LOG.append((a, torch.rand(2)))"],
                [f"with torch.random.fork_rng(): {y} = torch.rand_like({y})", "LOG.append(torch.rand(1))"],
                [f"LOG.append(nn.init.trunc_normal_({x}.clone()))"], [f"LOG.append(torch.normal({x}, 1.0))"],
                [f"LOG.append(nn.init.kaiming_uniform_({x}.clone(), a={n} % 3))"],
                [f"LOG.append(torch.multinomial({x}.abs() + 0.1, 2))"], [f"LOG.append(D.Gamma({x}.abs() + 0.5, 1.0).sample())"],
                [f"LOG.append(D.Categorical(logits={x}).sample((2,)))"], [f"{y} = torch.poisson({x}.abs(), generator=SOURCE)"],
                [f"SOURCE.manual_seed(abs({n})); LOG.append({x}.clone().exponential_(generator=SOURCE))"],
                [f"{x} = {x} * (random.random() > 0.5); LOG.append(random.randint(0, 9))"],
                [f"LOG.append(float(numpy.random.rand()) * {x})"], [f"LOG.append(nn.init.orthogonal_({x}.clone()))"],
                [f"{y} = F.scaled_dot_product_attention({x}[None, None], {x}[None, None], {x}[None, None], dropout_p=0.5)[0, 0]"],
                [f"LOG.append(F.gumbel_softmax({x}, dim=-1, hard={n} % 2 == 0))"], [f"{y} = DROP({x}); braze.graph_break(); LOG.append(torch.rand(2))"],
                [f"LOG.append(F.rrelu({x}, training=True))"], [f"v = torch.empty_like({x}); v.geometric_(0.5); LOG.append(v.cauchy_().shape)"],
            )
        )  # fmt: skip

    def layout(self):
        x, y, n = self.two()
        source = self.pick(
            "IMAGE", f"{x}[None, :, :, None].to(memory_format=torch.channels_last)", f"{x}.t()", f"{x}[:, :1]", f"{x}[:1]",
            f"{x}[None].expand(2, *{x}.shape)", f"{x}[:, None]", f"{x}[None].permute(2, 0, 1)", f"{x}[:, :1].expand(-1, 4)",
            "IMAGE.permute(0, 2, 3, 1)", "IMAGE[:, :1]", f"{x}[..., None, None].contiguous(memory_format=torch.channels_last)",
            f"{x}[::2]", f"{x}.as_strided((2, 2), (1, 2))", f"{x}.unflatten(-1, (1, -1))", "IMAGE[:1].transpose(1, 3)",
            f"torch.empty_strided((2, 1, 3), (3, 7, 1)).fill_({n})", f"{x}.sum(0, keepdim=True).t()",
        )  # fmt: skip
        # Normed values are made small: the rounding of their sum is not to reach what cancels later.
        operation = self.pick(
            "(v + 1)", "v.relu()", "(v * v)", "torch.zeros_like(v)", "v.clone()", "v.sum(1, keepdim=True)", "v.mean(-1)",
            "torch.cat([v, v], 1)", "torch.stack([v, v], -1)", "v.contiguous()", "torch.where(v > 0, v, v * 2)", "v.flip(0)",
            "v.to(torch.float64)", "torch.empty_like(v).fill_(2)", "v.softmax(1)", "v.cumsum(0)", "v.abs().sqrt()", "(v > 0)",
            f"(v + {y}.sum())", "v.squeeze()", "v.flatten()", "v.reshape(-1, 1)", "v.max(0).values", "v.sort(-1).values",
            "v.roll(1, 0)", "v.unsqueeze(1)", "v.new_zeros(v.shape)", "torch.rand_like(v)", "v.clone(memory_format=torch.preserve_format)",
            "F.pad(v, (1, 0))", "v.repeat_interleave(2, 0)", "v.bfloat16()", "v.amax((0, 1), keepdim=True)", "F.layer_norm(v.sin(), v.shape[-1:], eps=0.1).square() / 64",
            "v.clone().add_(v)", "v.diff(dim=0)", "v.tril()", "v.movedim(0, -1) + 1", "v.masked_fill(v > 1, 0)",
            "F.interpolate(v, scale_factor=2)", "F.avg_pool2d(v, 2)", "F.conv2d(v, torch.ones(2, v.size(1), 1, 1))", "F.batch_norm(v.sin(), None, None, training=True, eps=0.1).square() / 64",
        )  # fmt: skip
        self.telling(
            [
                f"v = {source}",
                f"w = {operation}",
                self.pick(
                    "LOG.append((w, w.stride()))",
                    "LOG.append(w)",
                    f"LOG.append(w.stride()); {y} = {y} + w.sum()",
                ),
            ]
        )
