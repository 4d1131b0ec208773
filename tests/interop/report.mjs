// One table: a row a check, a column a client; then the reasons.
const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

export function printReport(results, clients) {
  const rows = [...new Set(results.map((result) => result.check))];
  const width = Math.max(...rows.map((row) => row.length));
  const columns = clients.map((client) => Math.max(client.length, 8));
  const line = (first, cells) => console.log([first.padEnd(width), ...cells.map((cell, i) => cell.padEnd(columns[i]))].join('  ').trimEnd());
  line('', clients);
  for (const row of rows) {
    const cell = (client) => {
      const result = results.find((one) => one.check === row && one.client === client);
      if (!result) return '-';
      return result.reason ? 'FAILED' : 'ok';
    };
    line(row, clients.map(cell));
  }
  const failed = results.filter((result) => result.reason);
  for (const { client, check, reason } of failed) console.log(`\nFAILED ${client}: ${check}\n  ${clip(reason, 2000).replaceAll('\n', '\n  ')}`);
  console.log(`\n${results.length - failed.length} of ${results.length} ok`);
  return failed.length;
}
