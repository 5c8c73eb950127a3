# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernels should compute, in float64 numpy and from the model itself."""

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine import rows
from taichi_cloth_addon.engine.hybrid.air_kernels import AIR_DENSITY, SKIN_FRICTION
from taichi_cloth_addon.engine.hybrid.strain_kernels import LIMIT_MARGIN
from taichi_cloth_addon.engine.model import ClothModel
from tests.unit.kernel_cases import GRAVITY, LIMIT, SHARE, TIME, Data, H

Array = npt.NDArray[np.float64]


def as_matrices(packed: npt.NDArray[np.floating]) -> Array:
    """(N, 3, 3) from (2 N, 3): diagonals and (xy, xz, yz) by turns."""
    d, o = packed[0::2].astype(np.float64), packed[1::2].astype(np.float64)
    result = np.empty((len(d), 3, 3))
    for a in range(3):
        result[:, a, a] = d[:, a]
    for place, (a, b) in enumerate(((0, 1), (0, 2), (1, 2))):
        result[:, a, b] = result[:, b, a] = o[:, place]
    return result


def bending_form(model: ClothModel) -> Array:
    """The dense bending matrix (V, V)."""
    result = np.zeros((model.vertex_count, model.vertex_count))
    index = np.repeat(np.arange(model.vertex_count), np.diff(model.bending.offsets))
    result[index, model.bending.neighbours] = model.bending.weights
    return result


class Reference:
    """Forces and energies at the states of ``data``; ``drag`` are the vertices' drag tensors."""

    def __init__(self, data: Data, drag: Array, air_force: Array) -> None:
        self.model = data.model
        self.x = data.x.astype(np.float64)
        self.start = data.start.astype(np.float64)
        self.target = data.target.astype(np.float64)
        self.drag = drag
        self.air_force = air_force
        self.goal = data.pin_target + TIME * data.pin_velocity.astype(np.float64)
        self.pin_target = data.pin_target.astype(np.float64)
        self.pin_velocity = data.pin_velocity.astype(np.float64)
        count = self.model.vertex_count
        self.pin = np.zeros((count, 2))
        self.pin[self.model.pin_vertices, 0] = self.model.pin_stiffness
        self.pin[self.model.pin_vertices, 1] = self.model.pin_damping
        self.free = ~self.model.fixed
        self.form = bending_form(self.model)
        index, self.curved = rows.curved_hinges(self.model.hinges, self.model.rest)
        self.hinges = self.model.hinges.vertices[index]

    def determinants(self, x: Array) -> Array:
        """det(edge, p, q) of each curved hinge."""
        corner = x[self.hinges]
        e = corner[:, 1] - corner[:, 0]
        p = 0.5 * (corner[:, 2] + corner[:, 3]) - corner[:, 0]
        q = 0.5 * (corner[:, 4] + corner[:, 5]) - corner[:, 0]
        return np.asarray((e * np.cross(p, q)).sum(axis=1))

    def energy(self, x: Array) -> float:
        """Incremental energy of x, J; the slip of pins counts whole."""
        network = self.model.network
        i, j = network.vertices.T
        u = x - self.start
        stretch = np.linalg.norm(x[j] - x[i], axis=1) - network.rest_length
        total = 0.5 * (network.stiffness * stretch**2).sum()
        before = self.start[j] - self.start[i]
        growth = np.linalg.norm(x[j] - x[i], axis=1) - np.linalg.norm(before, axis=1)
        total += 0.5 / H * (network.damping * growth**2).sum()
        total += 0.5 * (x * (self.form @ x)).sum()
        total += 0.5 / H * (u * (self.model.bend_rate[:, None] * (self.form @ u))).sum()
        total -= (self.curved * self.determinants(x)).sum()
        f = self.free
        away = (x - self.target)[f]
        total += 0.5 / H**2 * (self.model.mass[f, None] * away**2).sum()
        total += 0.5 / H * np.einsum("na,nab,nb->", u[f], self.drag[f], u[f])
        pinned = f & (self.pin[:, 0] > 0.0)
        total += 0.5 * (self.pin[pinned, :1] * (x - self.goal)[pinned] ** 2).sum()
        slip = (u - H * self.pin_velocity)[pinned]
        total += 0.5 / H * (self.pin[pinned, 1:] * slip**2).sum()
        return float(total)

    def start_energy(self) -> float:
        """The part of the energy at the start that the kernel takes off."""
        pinned = self.free & (self.pin[:, 0] > 0.0)
        slip = H * self.pin_velocity[pinned]
        return self.energy(self.start) - float(0.5 / H * (self.pin[pinned, 1:] * slip**2).sum())

    def gradient(self, x: Array, step: float = 1e-6) -> Array:
        """Central differences of the energy; zero at fixed vertices."""
        result = np.zeros_like(x)
        for vertex in np.flatnonzero(self.free):
            for axis in range(3):
                moved = [x.copy(), x.copy()]
                moved[0][vertex, axis] += step
                moved[1][vertex, axis] -= step
                result[vertex, axis] = (self.energy(moved[0]) - self.energy(moved[1])) / (2 * step)
        return result

    def couplings_force(self, x: Array, v: Array) -> Array:
        """Springs with dampers along them, and flat bending with its own, N."""
        network = self.model.network
        i, j = network.vertices.T
        dx, dv = x[j] - x[i], v[j] - v[i]
        length = np.linalg.norm(dx, axis=1)
        direction = dx / length[:, None]
        pull = network.stiffness * (length - network.rest_length)
        pull += network.damping * (dv * direction).sum(axis=1)
        force = np.zeros_like(x)
        np.add.at(force, i, pull[:, None] * direction)
        np.add.at(force, j, -pull[:, None] * direction)
        return force - self.form @ x - self.model.bend_rate[:, None] * (self.form @ v)

    def lag_force(self, share: float) -> Array:
        """What dampers, bending, air and pins add for a velocity of -share * displacement / H."""
        network = self.model.network
        moved = self.target - self.start
        i, j = network.vertices.T
        offset, change = self.x[j] - self.x[i], moved[j] - moved[i]
        length = np.linalg.norm(offset, axis=1)
        growth = length - np.linalg.norm(offset - change, axis=1)
        pull = (-share / H * network.damping * growth / length)[:, None] * offset
        lag = share * moved
        force = self.model.bend_rate[:, None] * (self.form @ lag) / H
        np.add.at(force, i, pull)
        np.add.at(force, j, -pull)
        own = np.einsum("nab,nb->na", self.drag, lag) + self.pin[:, 1:] * lag
        return np.asarray(force + own / H)

    def shorten(self) -> tuple[Array, Array]:
        """Positions after one sweep of the strain limit, and each vertex's worst excess."""
        network = self.model.network
        weight = np.where(self.free, 1.0 / self.model.mass, 0.0)
        change, count = np.zeros_like(self.x), np.zeros(len(self.x))
        worst = np.zeros(len(self.x))
        for s, (i, j) in enumerate(network.vertices):
            longest = LIMIT * network.rest_length[s] * (s % 3 != 0)
            offset = self.x[j] - self.x[i]
            length = float(np.linalg.norm(offset))
            both = weight[i] + weight[j]
            if longest == 0.0 or length <= longest or both == 0.0:
                continue
            pull = (1.0 - (1.0 - LIMIT_MARGIN) * longest / length) * offset
            for here, sign in ((i, 1.0), (j, -1.0)):
                change[here] += sign * weight[here] / both * pull
                count[here] += 1.0
                worst[here] = max(worst[here], length / longest - 1.0)
        return self.x + change / np.maximum(count, 1.0)[:, None], worst

    def curved_force(self, x: Array) -> Array:
        """The curved hinges' forces on the vertices, N."""
        corner = x[self.hinges]
        e = corner[:, 1] - corner[:, 0]
        p = 0.5 * (corner[:, 2] + corner[:, 3]) - corner[:, 0]
        q = 0.5 * (corner[:, 4] + corner[:, 5]) - corner[:, 0]
        c = self.curved[:, None]
        on_e, on_p, on_q = c * np.cross(p, q), c * np.cross(q, e), c * np.cross(e, p)
        force = np.zeros_like(x)
        shares = (-(on_e + on_p + on_q), on_e, 0.5 * on_p, 0.5 * on_p, 0.5 * on_q, 0.5 * on_q)
        for slot, share in enumerate(shares):
            np.add.at(force, self.hinges[:, slot], share)
        return force

    def operations(self, x: Array, v: Array, h: float, count: int) -> tuple[Array, Array]:
        """Velocity Verlet in ``count`` kicks and drifts, the first and last kick half."""
        inverse = np.where(self.free, 1.0 / self.model.mass, 0.0)[:, None]
        gravity = np.where(self.free[:, None], GRAVITY, 0.0)
        pinned = self.free[:, None] & (self.pin[:, :1] > 0.0)
        for s in range(count):
            time = TIME + s * h
            force = self.couplings_force(x, v) + self.curved_force(x) + self.air_force
            force -= np.einsum("nab,nb->na", self.drag, v)
            away = self.pin_target + time * self.pin_velocity - x
            pull = self.pin[:, :1] * away + self.pin[:, 1:] * (self.pin_velocity - v)
            force += np.where(pinned, pull, 0.0)
            kick = 0.5 * h if s in (0, count - 1) else h
            v = v + kick * (inverse * force + gravity)
            x = x + (0.0 if s == count - 1 else h) * v
        return x, v

    def hessian(self, couplings: npt.NDArray[np.floating], own: npt.NDArray[np.floating]) -> Array:
        """The dense matrix (3 V, 3 V) that couplings and vertex blocks stand for."""
        count = self.model.vertex_count
        result = np.zeros((count, 3, count, 3))
        index = np.arange(count)
        result[index, :, index, :] = as_matrices(own)
        row = np.repeat(index, np.diff(self.model.rows.offsets))
        w = couplings[:, :3].astype(np.float64)
        block = couplings[:, 3, None, None] * np.eye(3) + w[:, :, None] * w[:, None, :]
        for r, c, b in zip(row, self.model.rows.neighbours, block, strict=True):
            result[r, :, r, :] += b
            result[r, :, c, :] -= b
        return result.reshape(3 * count, 3 * count)


def triangle_air(data: Data) -> tuple[Array, Array, Array]:
    """A third of each triangle's force at its present velocity, its drag tensor, and velocity."""
    model = data.model
    a, b, c = (data.x.astype(np.float64)[model.triangles[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    double = np.linalg.norm(normal, axis=1)
    n = normal / double[:, None]
    air = (1.0 - SHARE) * data.air_before.astype(np.float64) + SHARE * data.air_after
    wind = air[model.triangles].mean(axis=1)
    velocity = data.v.astype(np.float64)[model.triangles].mean(axis=1)
    u = wind - velocity
    across = (u * n).sum(axis=1)
    along = u - across[:, None] * n
    speed = np.linalg.norm(u, axis=1)
    scale = 0.5 * AIR_DENSITY * 0.5 * double * model.air_drag / 3.0
    force = scale[:, None] * (
        np.abs(across)[:, None] * across[:, None] * n + SKIN_FRICTION * speed[:, None] * along
    )
    outer = n[:, :, None] * n[:, None, :]
    drag = 2.0 * np.abs(across)[:, None, None] * outer
    drag += SKIN_FRICTION * speed[:, None, None] * (np.eye(3) - outer)
    return force, scale[:, None, None] * drag, velocity
