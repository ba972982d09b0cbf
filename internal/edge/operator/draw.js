// Drawing. Whatever comes from an edge is set as text, never as markup.

// el makes an element: el("p", { className: "x" }, "text", child, ...).
export function el(tag, properties = {}, ...children) {
	const node = Object.assign(document.createElement(tag), properties);
	node.append(...children);
	return node;
}

// put sets a node's text, if it is another.
export function put(node, text) {
	if (node.textContent !== text) {
		node.textContent = text;
	}
}

// keyed makes the children of a node follow items, and keeps those that stay, so
// that neither focus nor selection is lost. make(item) returns { node, show(item) }.
export function keyed(parent, key, make) {
	const drawn = new Map();
	return (items) => {
		const kept = new Set(items.map(key));
		for (const [k, d] of drawn) {
			if (!kept.has(k)) {
				d.node.remove();
				drawn.delete(k);
			}
		}
		let at = parent.firstChild;
		for (const item of items) {
			const k = key(item);
			let d = drawn.get(k);
			if (!d) {
				d = make(item);
				drawn.set(k, d);
			}
			d.show(item);
			if (d.node === at) {
				at = at.nextSibling;
			} else {
				parent.insertBefore(d.node, at);
			}
		}
	};
}

// table draws items in rows. A column is { head, text(item), mark(item), title(item), link(item) }
// or { head, node(current) }, where current() is the row's item and the node may
// have a method show(item).
export function table(caption, columns, key, empty) {
	const body = el("tbody");
	const none = el("p", { className: "hushed", textContent: empty });
	const grid = el("table", {}, el("caption", { textContent: caption }),
		el("thead", {}, el("tr", {}, ...columns.map((c) => el("th", { scope: "col", textContent: c.head })))), body);
	const show = keyed(body, key, (first) => {
		let item = first;
		const cells = columns.map((c) => {
			const cell = el("td");
			cell.dataset.head = c.head;
			const inner = c.node ? c.node(() => item) : c.link ? el("a") : cell;
			if (inner !== cell) {
				cell.append(inner);
			}
			return { cell, inner, c };
		});
		return {
			node: el("tr", {}, ...cells.map((x) => x.cell)),
			show(now) {
				item = now;
				for (const { cell, inner, c } of cells) {
					if (c.node) {
						inner.show?.(now);
						continue;
					}
					put(inner, c.text(now));
					if (c.link) {
						inner.href = c.link(now);
					}
					cell.dataset.mark = c.mark?.(now) ?? "";
					cell.title = c.title?.(now) ?? "";
				}
			},
		};
	});
	const node = el("div", { className: "table" }, grid, none);
	return {
		node,
		show(items) {
			show(items);
			grid.hidden = items.length === 0;
			none.hidden = items.length > 0;
		},
	};
}

const space = "http://www.w3.org/2000/svg";

function shape(tag, attributes, ...children) {
	const node = document.createElementNS(space, tag);
	for (const [name, value] of Object.entries(attributes)) {
		node.setAttribute(name, value);
	}
	node.append(...children);
	return node;
}

// plot draws the last hour of one number: points are { at, value } with times in
// minutes from 0 to 60; a value of null is a minute without one.
export function plot(title, unit) {
	const now = el("strong");
	const most = el("span", { className: "hushed" });
	const area = shape("path", { class: "area" });
	const line = shape("path", { class: "line" });
	const dots = shape("g", {});
	const text = shape("title", {});
	const picture = shape("svg", { viewBox: "0 0 120 32", preserveAspectRatio: "none", role: "img" }, text, area, line, dots);
	const node = el("figure", { className: "plot" },
		el("figcaption", {}, el("span", { textContent: title }), now), picture, most);
	return {
		node,
		show(points) {
			const values = points.map((p) => p.value).filter((v) => v !== null);
			const top = Math.max(1, ...values);
			const x = (p) => (p.at * 2).toFixed(1);
			const y = (p) => (30 - (28 * p.value) / top).toFixed(1);
			let path = "";
			let fill = "";
			let alone = [];
			for (let i = 0; i < points.length; i++) {
				if (points[i].value === null) {
					continue;
				}
				let j = i;
				while (j + 1 < points.length && points[j + 1].value !== null && points[j + 1].at - points[j].at <= 1) {
					j++;
				}
				if (i === j) {
					alone.push(points[i]);
				} else {
					const part = points.slice(i, j + 1).map((p) => `${x(p)} ${y(p)}`).join("L");
					path += `M${part}`;
					fill += `M${x(points[i])} 31L${part}L${x(points[j])} 31Z`;
				}
				i = j;
			}
			line.setAttribute("d", path);
			area.setAttribute("d", fill);
			dots.replaceChildren(...alone.map((p) => shape("rect", { x: x(p) - 0.7, y: y(p) - 0.7, width: 1.4, height: 1.4, class: "dot" })));
			const last = values.length ? `${short(values.at(-1))}${unit}` : "–";
			put(now, last);
			put(most, values.length ? `most ${short(Math.max(...values))}${unit}` : "nothing in the last hour");
			put(text, `${title}: ${last} now, ${most.textContent}`);
		},
	};
}

// short writes a number in few letters.
export function short(n) {
	if (n >= 10_000) {
		return `${(n / 1000).toFixed(n < 100_000 ? 1 : 0)}k`;
	}
	return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toFixed(n < 10 ? 1 : 0);
}

// span says how long milliseconds are.
export function span(ms) {
	if (ms < 1000) {
		return `${Math.max(0, Math.round(ms))} ms`;
	}
	for (const [size, name, more] of [[86_400_000, "d", [3_600_000, "h"]], [3_600_000, "h", [60_000, "min"]], [60_000, "min", [1000, "s"]]]) {
		if (ms >= size) {
			const rest = Math.floor((ms % size) / more[0]);
			return `${Math.floor(ms / size)} ${name}${rest ? ` ${rest} ${more[1]}` : ""}`;
		}
	}
	return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}

const two = (n) => String(n).padStart(2, "0");

// clock is a time of day, with the day where that is not today.
export function clock(ms, fine = false) {
	const d = new Date(ms);
	const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}${fine ? `.${String(d.getMilliseconds()).padStart(3, "0")}` : ""}`;
	return d.toDateString() === new Date().toDateString() ? time : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

// count says how many: count(1, "run") is "1 run".
export const count = (n, what) => `${short(n)} ${what}${n === 1 ? "" : "s"}`;
