// Signed bars: one row per value, zero in the middle where values of both signs occur.

/**
 * Rows: {name, value, text, style: "a" | "b" | "c"}; `low` and `high` are the ends of the axis.
 * The picture's alternative text is the title with all names and texts.
 */
function barChart({ title, rows, low, high, width, left = 70, right = 48, step = 24 }) {
  const top = 26;
  const height = top + step * rows.length + 2;
  const x = (v) => left + ((Math.min(Math.max(v, low), high) - low) / (high - low)) * (width - left - right);
  const alt = `${title}: ${rows.map((r) => `${r.name} ${r.text}`).join(", ")}`;
  const body = rows
    .map(({ name, value, text, style }, i) => {
      const y = top + i * step;
      const [from, to] = [Math.min(x(0), x(value)), Math.max(x(0), x(value))];
      return (
        `<text class="tfc-tick" x="${left - 6}" y="${y + 13}" text-anchor="end">${escapeText(name)}</text>` +
        `<rect class="tfc-bar tfc-${style}" x="${from.toFixed(1)}" y="${y}" width="${(to - from).toFixed(1)}" height="${step - 7}"/>` +
        `<text class="tfc-name" x="${width - right + 6}" y="${y + 13}">${escapeText(text)}</text>`
      );
    })
    .join("");
  const zero = x(0).toFixed(1);
  return (
    `<svg role="img" aria-label="${escapeText(alt)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<text class="tfc-title" x="2" y="14">${escapeText(title)}</text>${body}` +
    `<line class="tfc-axis" x1="${zero}" x2="${zero}" y1="${top - 3}" y2="${height}"/></svg>`
  );
}
