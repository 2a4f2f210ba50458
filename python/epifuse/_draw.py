"""Pictures for notebooks: a chain as a graph, a plan as a table. Plain SVG and HTML, so that nothing need be
installed."""

import html

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 112, 30, 16, 26, 8
_FILLS = {"input": "#fdf3e0", "scalar": "#fdf3e0", "constant": "#f1f1f1", "result": "#e3f4e1"}
_PLAIN = "#eef3fb"


def _label(value):
    op = value["op"]
    if op in ("input", "scalar"):
        return value["name"]
    if op == "view":
        return value["view"]
    if op == "constant":
        return f"{value['constant']:g}"
    if op == "cast":
        return f"cast {value['dtype']}"
    detail = ""
    if value["axes"] or value["axes_rest"]:
        detail = " " + ",".join(str(axis) for axis in value["axes"]) + (",…" if value["axes_rest"] else "")
    if value["sizes"]:
        detail += " " + "×".join(str(size) for size in value["sizes"])
    return op + detail


def _nodes(tail):
    """Labels, kinds, arguments, with the results behind the values."""
    values = tail.values()
    nodes = [(_label(value), value["op"], value["arguments"]) for value in values]
    for name, position in zip(tail.results, tail._launcher.result_values):
        nodes.append((name, "result", [position]))
    return nodes


def graph_svg(tail, most=400):
    """The chain as SVG, operands on top; "" for chains of more than `most` values, which nobody could read."""
    nodes = _nodes(tail)
    if len(nodes) > most:
        return ""
    levels = []
    for _, _, arguments in nodes:
        levels.append(1 + max((levels[argument] for argument in arguments), default=-1))
    # What is only an operand stands right above its first use, not all at the top.
    for i in range(len(nodes) - 1, -1, -1):
        uses = [levels[k] for k, (_, _, arguments) in enumerate(nodes) if i in arguments]
        if not nodes[i][2] and uses:
            levels[i] = min(uses) - 1
    rows = {}
    for i, level in enumerate(levels):
        rows.setdefault(level, []).append(i)
    widest = max(len(row) for row in rows.values())
    width = widest * (_WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    places = {}
    for level, row in rows.items():

        def middle(i):
            above = [places[argument][0] for argument in nodes[i][2] if argument in places]
            return sum(above) / len(above) if above else width / 2

        if level:
            row.sort(key=middle)
        start = (width - (len(row) * (_WIDTH + _GAP_X) - _GAP_X)) / 2
        for k, i in enumerate(row):
            places[i] = (start + k * (_WIDTH + _GAP_X), _MARGIN + level * (_HEIGHT + _GAP_Y))
    height = (max(levels) + 1) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="Helvetica,Arial,sans-serif" font-size="12">'
    ]
    for i, (_, _, arguments) in enumerate(nodes):
        for argument in arguments:
            (x0, y0), (x1, y1) = places[argument], places[i]
            parts.append(
                f'<path d="M{x0 + _WIDTH / 2:.0f} {y0 + _HEIGHT:.0f} C{x0 + _WIDTH / 2:.0f} {y0 + _HEIGHT + _GAP_Y / 2:.0f} '
                f'{x1 + _WIDTH / 2:.0f} {y1 - _GAP_Y / 2:.0f} {x1 + _WIDTH / 2:.0f} {y1:.0f}" fill="none" stroke="#8a97ab"/>'
            )
    for i, (label, kind, _) in enumerate(nodes):
        x, y = places[i]
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{_FILLS.get(kind, _PLAIN)}" stroke="#c3cbd8"/>'
            f'<text x="{x + _WIDTH / 2:.0f}" y="{y + _HEIGHT / 2 + 4:.0f}" text-anchor="middle">{html.escape(label)}</text>'
        )
    return "".join(parts) + "</svg>"


def tail_html(tail):
    return f"<div><code>{html.escape(tail.text)}</code></div>{graph_svg(tail)}"


def plan_html(plan):
    rows = "".join(
        f"<tr><td>{html.escape(operand['name'])}</td><td>{operand['dtype']}</td><td>{'×'.join(map(str, operand['shape']))}</td>"
        f"<td>{operand['access']}</td><td>{operand['bytes_per_access']}</td><td>{operand['bytes'] / 1e6:.2f} MB</td></tr>"
        for operand in plan.summary["operands"]
    )
    return (
        f"<div>{graph_svg(plan.tail)}<table><thead><tr><th>operand</th><th>type</th><th>shape</th><th>access</th><th>bytes per access</th>"
        f"<th>moved</th></tr></thead><tbody>{rows}</tbody></table><pre>{html.escape(plan.text())}</pre></div>"
    )
