"""Tensors that share memory: inputs, outputs, views, in-place operations."""

import torch
from running import case


def twice(k):
    x = torch.randn(4)
    return (x, x) if k < 2 else (x, torch.randn(4))


@case(make=twice)
def same_tensor_twice(x, y):
    return x + y


@case(make=twice)
def same_tensor_twice_in_place(x, y):
    x.add_(1)
    return x * y


@case(make=twice)
def same_tensor_identity(x, y):
    return (x is y), x - y


def views(k):
    base = torch.arange(12.0)
    return (base, base.view(3, 4)) if k % 2 else (base[:6], base.view(3, 4)[1:])


@case(make=views)
def views_of_one_base(x, y):
    y.mul_(2)
    return x.sum() + y.sum()


@case
def output_is_the_input(x):
    return x, x


@case
def output_is_a_view(x):
    return x.view(-1), x[0], x.unsqueeze(0)


@case
def outputs_are_views_of_each_other(x):
    y = x + 1
    return y, y.view(-1), y[0]


@case
def in_place_on_a_view_of_the_input(x):
    x[0].fill_(7)
    x.view(-1)[1:].add_(1)
    return x.sum()


@case
def in_place_on_a_view_of_a_result(x):
    y = x + 1
    y[0] = 5
    y.view(-1)[-1] *= 2
    return y


@case
def item_assignment(x):
    x[..., 0] = 3
    x[..., 1:] = x[..., 1:] * 2
    return x


@case
def augmented_assignment(x, y):
    x += y
    x *= 2
    y -= x
    return y


@case
def augmented_assignment_of_an_item(tensors):
    tensors[0] += tensors[1]
    tensors[2][0] -= 1
    return tensors[0] * 2


@case
def out_argument(x, y):
    out = torch.empty_like(x)
    result = torch.add(x, y, out=out)
    return out, result is out


@case(make=lambda k: (torch.randn(3), torch.empty(3)))
def out_is_an_argument(x, out):
    torch.mul(x, 2, out=out)
    return x + out


@case
def overlapping_copy_raises(x):
    x = x.view(-1)
    x[1:].copy_(x[:-1])
    return x


@case
def overlapping_copy_of_a_result_raises(x):
    y = (x + 1).view(-1)
    y[1:].copy_(y[:-1])
    return y


@case
def overlapping_add_raises(x):
    x = x.view(-1)
    x[1:].add_(x[:-1])
    return x


@case
def in_place_on_expanded_raises(x):
    y = x.sum().expand(4)
    y.add_(1)
    return y


@case
def copy_into_itself(x):
    x.copy_(x)
    x.view(-1)[::2].copy_(x.view(-1)[::2])
    return x + 1


@case
def data_is_another_object(x):
    y = x + 1
    z = y.data
    return y, z, y is z


@case
def detach_is_another_object(x):
    y = x + 1
    return y, y.detach(), x.detach(), y.detach() is y


@case
def data_of_the_input(x):
    x.data.mul_(2)
    return x + 1


@case
def methods_that_may_give_themselves(x):
    y = x + 1
    return (
        y.contiguous() is y,
        y.float() is y,
        y.to(torch.float32) is y,
        y.double() is y,
        y.view(y.shape) is y,
        y.expand_as(y) is y,
        y.clone() is y,
        y.cpu() is y,
        y.reshape(y.shape) is y,
    ), y


@case
def input_methods_that_give_themselves(x):
    return x.contiguous(), x.float(), x.to("cpu"), x.clone()


@case
def swap_through_a_temporary(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


buffer = torch.zeros(4)


@case
def buffer_of_the_module_is_changed(x):
    buffer.add_(x.sum())
    return buffer * 2


@case
def buffer_of_the_module_is_returned(x):
    buffer.mul_(2)
    return buffer, buffer[:2]


@case
def list_of_views_is_changed(x):
    parts = list(x.view(-1).chunk(2))
    parts[0].zero_()
    return x, parts


@case
def unbind_and_write(x):
    for k, row in enumerate(x.view(2, -1).unbind()):
        row.add_(k)
    return x


@case
def transposed_write(m):
    m.t()[0] = 1
    m.T.mul_(2)
    return m, m.t()


@case
def view_written_after_the_base(x):
    y = x + 1
    v = y.view(-1)
    y.mul_(2)
    v.add_(1)
    y = y + v.view_as(y)
    return y, v


@case
def set_to_another(x, y):
    z = x + 1
    z.set_(y)
    return z * 2


@case
def resize_in_place(x):
    y = x + 1
    y.resize_(2)
    return y


@case(make=lambda k: (torch.randn(6),))
def resize_the_input(x):
    x.resize_(2, 3)
    return x * 2


@case
def slices_that_overlap_are_read(x):
    x = x.view(-1)
    return x[1:] + x[:-1], x[1:], x[:-1]


@case(make=lambda k: (torch.randn(3, 4).t(),))
def strided_input(x):
    x[0] = 0
    return x + 1, x.contiguous()


@case(make=lambda k: (torch.randn(3, 1).expand(3, 4),))
def expanded_input(x):
    return x * 2, x


@case
def as_strided(x):
    return x.as_strided((2,), (1,), 1), x.diagonal() if x.dim() == 2 else x


@case
def bitwise_not_of_floats_raises(x):
    return ~x


@case(make=lambda k: (torch.arange(4) + k,))
def bitwise_not_of_integers(i):
    return ~i, ~(i > 2)
